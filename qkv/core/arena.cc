#include "qkv/core/arena.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>

namespace qkv {
namespace {

// The first block: small models fit, and large ones outgrow it in a few doublings.
constexpr size_t kFirstBlock = size_t{1} << 20;

size_t BlockEnd(size_t begin, const Tensor<std::byte>& memory) { return begin + static_cast<size_t>(memory.size()); }

}  // namespace

void* Arena::Allocate(size_t bytes) {
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (blocks_.empty() || used_ + bytes > BlockEnd(blocks_.back().begin, blocks_.back().memory)) {
    // What is left of the last block is skipped, so an allocation never straddles two.
    const size_t begin = blocks_.empty() ? 0 : BlockEnd(blocks_.back().begin, blocks_.back().memory);
    const size_t size = std::max({bytes, begin, kFirstBlock});
    blocks_.push_back({Tensor<std::byte>::Uninitialised({static_cast<int64_t>(size)}), begin});
    used_ = begin;
  }
  void* result = blocks_.back().memory.data() + (used_ - blocks_.back().begin);
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  return result;
}

void Arena::Rewind(size_t mark) {
  used_ = mark;
  // A block that begins after the mark is empty now; Reset joins them, until then the last one in use goes on.
  while (blocks_.size() > 1 && blocks_.back().begin >= mark) blocks_.pop_back();
}

void Arena::Reset() {
  used_ = 0;
  if (blocks_.size() == 1 && static_cast<size_t>(blocks_[0].memory.size()) >= peak_) return;
  blocks_.clear();
#ifdef __GLIBC__
  // The smaller blocks lay in the heap, which would keep them. Below so much it is not worth a walk through all of it.
  constexpr size_t kWorthATrim = size_t{16} << 20;
  if (peak_ >= kWorthATrim) malloc_trim(0);
#endif
  if (peak_ > 0) blocks_.push_back({Tensor<std::byte>::Uninitialised({static_cast<int64_t>(peak_)}), 0});
}

}  // namespace qkv
