#include "qkv/core/tensor.h"

#include <fmt/ranges.h>
#include <sys/mman.h>

#include "qkv/core/pages.h"

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

// Weights and activations are walked in strides, and with small pages the processor looks up each. On Zen 4,
// ViT-B at batch 8 is 3 % faster with large ones, at batch 1 in bf16 and int8 1 %. A system that has none changes
// nothing.
void internal::PreferHugePages([[maybe_unused]] void* memory, [[maybe_unused]] size_t bytes) {
#ifdef MADV_HUGEPAGE
  constexpr size_t kHugePage = size_t{2} << 20;
  AdviseWholePages({static_cast<const std::byte*>(memory), bytes}, kHugePage, MADV_HUGEPAGE);
#endif
}

}  // namespace qkv

fmt::format_context::iterator fmt::formatter<qkv::Shape>::format(const qkv::Shape& shape,
                                                                 fmt::format_context& context) const {
  return fmt::formatter<std::string_view>::format(fmt::format("[{}]", fmt::join(shape.extents(), ", ")), context);
}
