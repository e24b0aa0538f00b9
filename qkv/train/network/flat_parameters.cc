#include "qkv/train/network/flat_parameters.h"

#include <algorithm>

namespace qkv::train {
namespace {

// Elements per cache line of float, the smallest trained type.
constexpr int64_t kLine = kAlignment / sizeof(float);

}  // namespace

ParameterLayout::ParameterLayout(const std::vector<model::TensorSpec>& table) {
  for (const model::TensorSpec& spec : table) {
    slots_.push_back({spec.name, spec.shape, spec.role, size_, spec.role == model::Role::kWeight});
    size_ += (spec.shape.size() + kLine - 1) / kLine * kLine;
  }
}

const Slot* ParameterLayout::Find(std::string_view name) const {
  const auto at = std::find_if(slots_.begin(), slots_.end(), [&](const Slot& slot) { return slot.name == name; });
  return at == slots_.end() ? nullptr : &*at;
}

}  // namespace qkv::train
