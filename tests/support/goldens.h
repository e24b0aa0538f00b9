// The models of tests/golden, and how far answers are from theirs.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "qkv/core/tensor.h"
#include "tests/support/files.h"

namespace qkv {

inline std::filesystem::path GoldenFolder(const std::string& name) { return SourceFolder() / "tests/golden" / name; }

/// All that have answers of their original, sorted.
inline std::vector<std::string> GoldenNames() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(SourceFolder() / "tests/golden")) {
    if (std::filesystem::exists(entry.path() / "expected.safetensors")) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Greatest |a − b|; infinity when one is NaN.
template <typename A, typename B>
double MaxDifference(const Tensor<A>& a, const Tensor<B>& b) {
  EXPECT_EQ(a.shape(), b.shape());
  double greatest = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    greatest = std::isnan(difference) ? INFINITY : std::max(greatest, difference);
  }
  return greatest;
}

template <typename T>
double MaxAbs(const Tensor<T>& x) {
  double greatest = 0;
  for (const T v : x.span()) greatest = std::max(greatest, std::abs(static_cast<double>(v)));
  return greatest;
}

}  // namespace qkv
