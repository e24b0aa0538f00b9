// The tensors of a head's file, each taken once: what is left over at the end refuses the file.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/io/tensor_set.h"
#include "qkv/mil/gated_head.h"

namespace qkv::mil {

/// A linear layer as stored.
struct StoredLinear {
  Tensor<float> weight;  // [outputs, inputs]
  Tensor<float> bias;    // [outputs]
};

class NamedTensors {
 public:
  /// `where` is the prefix of errors; both must outlive this.
  NamedTensors(const io::TensorSet& set, std::string_view where) : set_(set), where_(where) {}

  std::string_view where() const { return where_; }
  bool Has(std::string_view name) const { return set_.Find(name) != nullptr; }
  /// The numbers n of names PREFIXn.weight, ascending: the layers with weights of a Sequential or a ModuleList.
  std::vector<int64_t> Layers(std::string_view prefix) const;
  /// Throws Error if the tensor is missing, has another rank or no elements, or is not finite.
  Tensor<float> Take(const std::string& name, int rank);
  /// PREFIXweight [outputs, inputs] and PREFIXbias [outputs].
  StoredLinear TakeLinear(const std::string& prefix);
  Stage TakeStage(const std::string& prefix, simd::Activation activation);
  /// Takes all tensors whose names begin with `prefix`, which are known and not needed.
  void Skip(std::string_view prefix);
  /// Throws Error that names tensors that were not taken.
  void Finish(std::string_view layout) const;

 private:
  const io::TensorSet& set_;
  std::string_view where_;
  std::set<std::string, std::less<>> taken_;
};

/// Packs rows of several layers, which read the same, as one. Throws Error if their widths differ.
Stage JoinStages(const std::vector<StoredLinear>& layers, simd::Activation activation, std::string_view where);
nn::Linear<float> PackLinear(StoredLinear layer);

}  // namespace qkv::mil
