#include "qkv/core/tensor_pool.h"

#include <algorithm>

namespace qkv {
namespace {

// So large that the C library maps it by itself: memory that no tensor has touched is not allocated.
constexpr size_t kBlock = size_t{32} << 20;

}  // namespace

std::shared_ptr<std::byte> TensorPool::Allocate(size_t bytes) {
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const std::lock_guard lock(mutex_);
  if (!block_ || used_ + bytes > static_cast<size_t>(block_->size())) {
    const auto size = static_cast<int64_t>(std::max(kBlock, bytes));
    block_ = std::make_shared<Tensor<std::byte>>(Tensor<std::byte>::Uninitialised({size}));
    used_ = 0;
  }
  std::byte* const place = block_->data() + used_;
  used_ += bytes;
  return {block_, place};
}

}  // namespace qkv
