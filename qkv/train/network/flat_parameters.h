// All parameters of a model in one flat buffer: where each tensor of the table lies in it. Gradients, the optimiser's
// moments and averages of the weights are buffers of the same layout, so each is one tensor to add, reduce or store.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/core/tensor.h"
#include "qkv/model/checkpoint/tensor_table.h"

namespace qkv::train {

struct Slot {
  std::string name;  // the table's, timm's
  Shape shape;
  model::Role role;
  int64_t offset;  // of its first element in the buffer
  bool decays;     // weight decay shrinks it: weights do; biases, norms, scales, tokens and positions do not
};

class ParameterLayout {
 public:
  explicit ParameterLayout(const model::VitConfig& config) : ParameterLayout(model::TensorTable(config)) {}
  explicit ParameterLayout(const std::vector<model::TensorSpec>& table);

  /// In the table's order; each begins on a cache line, what lies between two is padding that stays zero.
  const std::vector<Slot>& slots() const { return slots_; }
  /// P: elements of a buffer, padding included.
  int64_t size() const { return size_; }

  bool Has(std::string_view name) const { return Find(name) != nullptr; }
  /// The tensor within a buffer [P], in its shape. Throws Error when the model has no such tensor.
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
