// Scratch memory for a forward pass: allocation increments a pointer, and everything is freed at once. After the first
// pass the arena holds one block of the required size, so the second pass allocates nothing.
#pragma once

#include <cstddef>
#include <vector>

#include "qkv/core/tensor.h"

namespace qkv {

/// Scratch memory of one caller. Not shared between threads.
class Arena {
 public:
  /// Uninitialised, 64-byte aligned memory that lives until the enclosing Scope ends or Reset is called.
  template <typename T>
  View<T> New(const Shape& shape) {
    Require(static_cast<uint64_t>(shape.size()) <= PTRDIFF_MAX / sizeof(T), "arena: {} is too large to address", shape);
    return View<T>(static_cast<T*>(Allocate(sizeof(T) * static_cast<size_t>(shape.size()))), shape);
  }

  /// On destruction frees everything that was allocated since construction.
  class Scope {
   public:
    explicit Scope(Arena& arena) : arena_(arena), mark_(arena.used_) {}  // of an arena that outlives it
    ~Scope() { arena_.Rewind(mark_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena& arena_;
    size_t mark_;
  };

  /// Frees everything, joins the blocks into one of the greatest size ever in use, and returns heap pages to the
  /// system.
  void Reset();

  /// The greatest number of bytes ever in use.
  size_t peak_bytes() const { return peak_; }

 private:
  struct Block {
    Tensor<std::byte> memory;
    size_t begin;  // position of its first byte, counted over all blocks
  };

  void* Allocate(size_t bytes);
  void Rewind(size_t mark);

  std::vector<Block> blocks_;
  size_t used_ = 0, peak_ = 0;
};

}  // namespace qkv
