// A small model as PyTorch trained it, by the layout of our own; and tests under every instruction set.
#pragma once

#include <algorithm>
#include <string>

#include "qkv/io/safetensors.h"
#include "qkv/train/network/flat_parameters.h"
#include "tests/support/difference.h"
#include "tests/support/files.h"
#include "tests/support/isas.h"

namespace qkv::train {

class PyTorchGolden {
 public:
  PyTorchGolden() = default;
  /// tests/train/golden/NAME.safetensors
  explicit PyTorchGolden(const std::string& name)
      : file_(io::SafeTensors::Open(SourceFolder() / "tests/train/golden" / (name + ".safetensors"))) {}

  template <typename T>
  Tensor<T> Read(const std::string& name) const {
    const io::StoredTensor* stored = file_.Find(name);
    Require(stored != nullptr, "the golden has no {}", name);
    return io::Convert<T>(*stored);
  }
  /// Weights, or gradients, in the layout of the network; `suffix`: of the names' precision.
  template <typename T>
  Tensor<T> ReadAll(const ParameterLayout& layout, const std::string& what, const std::string& suffix = "") const {
    Tensor<T> buffer({layout.size()});
    for (const Slot& slot : layout.slots()) {
      const Tensor<T> values = Read<T>(what + slot.name + suffix);
      std::copy_n(values.data(), values.size(), layout.At(slot.name, buffer.view()).data());
    }
    return buffer;
  }

 private:
  io::SafeTensors file_;
};

template <typename F>
void ForEachIsa(F&& f) {
  const simd::Isa before = simd::ActiveIsa();
  for (const IsaParameter& parameter : IsaParameters()) {
    SCOPED_TRACE(std::string(simd::Name(parameter.isa)) + (parameter.portable ? ", portable" : ""));
    simd::SetIsa(parameter.isa);
    simd::internal::SetPortableForTest(parameter.portable);
    f();
  }
  simd::internal::SetPortableForTest(false);
  simd::SetIsa(before);
}

/// The design's criterion for agreement with an original, tensor by tensor; gradients: [P], ours.
inline void ExpectGradientsAsNear(const PyTorchGolden& golden, const ParameterLayout& layout,
                                  const Tensor<float>& gradients) {
  for (const Slot& slot : layout.slots()) {
    const auto single = golden.Read<double>("gradients/" + slot.name),
               exact = golden.Read<double>("gradients/" + slot.name + ".float64");
    Tensor<double> of_slot(exact.shape());
    for (int64_t i = 0; i < of_slot.size(); ++i) of_slot[i] = static_cast<double>(gradients[slot.offset + i]);
    EXPECT_LE(MaxDifference(of_slot, exact), 4 * MaxDifference(single, exact) + 1e-6 * MaxAbs(exact)) << slot.name;
  }
}

}  // namespace qkv::train
