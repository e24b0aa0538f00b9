// What PyTorch and timm make of losses, optimizers and schedules (generate_golden.py).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "qkv/io/safetensors.h"
#include "tests/support/files.h"

namespace qkv::train {

class Golden {
 public:
  Golden() : file_(io::SafeTensors::Open(SourceFolder() / "tests/train/golden/training.safetensors")) {}

  template <typename T>
  Tensor<T> Get(const std::string& name) const {
    const io::StoredTensor* tensor = file_.Find(name);
    Require(tensor != nullptr, "the golden has no tensor '{}'", name);
    return io::Convert<T>(*tensor);
  }

  const io::SafeTensors& file() const { return file_; }

  /// As right as docs/architecture.md asks: `got` against the tensor `name` in both precisions.
  template <typename T>
  void ExpectRight(const std::string& name, const Tensor<T>& got) const {
    const auto theirs = Get<float>(name);
    const auto exact = Get<double>(name + ".float64");
    ASSERT_EQ(got.shape(), exact.shape()) << name;
    double error = 0, greatest = 0;
    for (int64_t i = 0; i < exact.size(); ++i) {
      error = std::max(error, std::abs(theirs[i] - exact[i])), greatest = std::max(greatest, std::abs(exact[i]));
    }
    const double bound = sizeof(T) == 4 ? 4 * error + 1e-6 * greatest : 1e-13 * greatest;
    for (int64_t i = 0; i < exact.size(); ++i) ASSERT_NEAR(got[i], exact[i], bound) << name << " at " << i;
  }

 private:
  io::SafeTensors file_;
};

}  // namespace qkv::train
