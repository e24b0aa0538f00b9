#include "qkv/core/tensor.h"

#include <fmt/ranges.h>

namespace qkv {

Shape::Shape(std::span<const int64_t> extents) {
  Require(extents.size() <= kMaxRank, "shape: at most {} axes, got {}", kMaxRank, extents.size());
  rank_ = static_cast<int>(extents.size());
  bool empty = false;
  for (int axis = 0; axis < rank_; ++axis) {
    Require(extents[axis] >= 0, "shape: extent {} of axis {} is negative", extents[axis], axis);
    extents_[axis] = extents[axis];
    empty |= extents[axis] == 0;
    Require(!__builtin_mul_overflow(size_, extents[axis] == 0 ? 1 : extents[axis], &size_),
            "shape: [{}] has more elements than 63 bits count", fmt::join(extents, ", "));
  }
  if (empty) size_ = 0;
}

}  // namespace qkv

fmt::format_context::iterator fmt::formatter<qkv::Shape>::format(const qkv::Shape& shape,
                                                                 fmt::format_context& context) const {
  return fmt::formatter<std::string_view>::format(fmt::format("[{}]", fmt::join(shape.extents(), ", ")), context);
}
