// Memory for many tensors of about the same lifetime, such as the weights of a model.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>

#include "qkv/core/tensor.h"

namespace qkv {

/// Tensors that are contiguous in large blocks, which large pages back; tensors of less than a few MiB cannot have
/// large pages of their own. A block lives as long as any tensor in it. Threads may share a pool.
class TensorPool {
 public:
  /// Uninitialised. Throws Error when the allocation fails.
  template <typename T>
  Tensor<T> New(const Shape& shape) {
    Require(static_cast<uint64_t>(shape.size()) <= kMostBytes / sizeof(T), "tensor: {} is too large to address", shape);
    const std::shared_ptr<std::byte> place = Allocate(sizeof(T) * static_cast<size_t>(shape.size()));
    return Tensor<T>::Borrowed(reinterpret_cast<const T*>(place.get()), shape, place);
  }

 private:
  // A whole block can be added to this without overflow.
  static constexpr uint64_t kMostBytes = PTRDIFF_MAX / 2;

  // Shares ownership of the block that it points into.
  std::shared_ptr<std::byte> Allocate(size_t bytes);

  std::mutex mutex_;
  std::shared_ptr<Tensor<std::byte>> block_;  // the last one
  size_t used_ = 0;                           // of it
};

}  // namespace qkv
