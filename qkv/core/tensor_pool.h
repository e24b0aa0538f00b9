// Memory for many tensors that live about as long as each other, such as a model's weights.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>

#include "qkv/core/tensor.h"

namespace qkv {

/// Tensors that lie one behind the other in large blocks. Large pages back those, which tensors of less than some MiB
/// cannot have by themselves. A block lives as long as any tensor in it. Threads may share a pool.
class TensorPool {
 public:
  /// Uninitialised. Throws Error when the memory cannot be had.
  template <typename T>
  Tensor<T> New(const Shape& shape) {
    Require(static_cast<uint64_t>(shape.size()) <= kMostBytes / sizeof(T), "tensor: {} is too large to address", shape);
    const std::shared_ptr<std::byte> place = Allocate(sizeof(T) * static_cast<size_t>(shape.size()));
    return Tensor<T>::Borrowed(reinterpret_cast<const T*>(place.get()), shape, place);
  }

 private:
  // What a whole block more can still be added to.
  static constexpr uint64_t kMostBytes = PTRDIFF_MAX / 2;

  // Shares in the block that it points into.
  std::shared_ptr<std::byte> Allocate(size_t bytes);

  std::mutex mutex_;
  std::shared_ptr<Tensor<std::byte>> block_;  // the last one
  size_t used_ = 0;                           // of it
};

}  // namespace qkv
