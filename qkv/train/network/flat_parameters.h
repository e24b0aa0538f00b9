// Layout of all parameters of a model in one flat buffer. Gradients, optimiser moments and weight averages use the same
// layout, so that each is one tensor to add, reduce or store.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/core/tensor.h"
#include "qkv/model/layout/tensor_table.h"

namespace qkv::train {

struct Slot {
  std::string name;  // from the tensor table, in timm's naming
  Shape shape;
  model::Role role;
  int64_t offset;  // of the first element in the buffer
  bool decays;     // subject to weight decay: weights are; biases, norms, scales, tokens and positions are not
};

class ParameterLayout {
 public:
  explicit ParameterLayout(const model::VitConfig& config) : ParameterLayout(model::TensorTable(config)) {}
  explicit ParameterLayout(const std::vector<model::TensorSpec>& table);

  /// In the table's order. Each tensor begins on a cache line; the padding between tensors stays zero.
  const std::vector<Slot>& slots() const { return slots_; }
  /// P: number of elements of a buffer, padding included.
  int64_t size() const { return size_; }

  bool Has(std::string_view name) const { return Find(name) != nullptr; }
  /// Returns a view of the tensor within a buffer [P], in the tensor's shape. Throws Error if the model has no such
  /// tensor.
  template <typename T>
  View<T> At(std::string_view name, View<T> buffer) const {
    const Slot* slot = Find(name);
    Require(slot != nullptr, "parameters: the model has no tensor '{}'", name);
    Require(buffer.size() == size_, "parameters: a buffer of {} elements, expected {}", buffer.size(), size_);
    return View<T>(buffer.data() + slot->offset, slot->shape);
  }

 private:
  const Slot* Find(std::string_view name) const;

  std::vector<Slot> slots_;
  int64_t size_ = 0;
};

}  // namespace qkv::train
