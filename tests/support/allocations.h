// Counts calls of operator new. It replaces the operators of the whole program; include it in one source of a test
// only.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

#include "tests/support/allocation_count.h"

namespace qkv {

inline void* CountedAllocate(size_t size, size_t alignment) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return alignment > alignof(std::max_align_t)
             ? std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment)
             : std::malloc(size ? size : 1);
}

}  // namespace qkv

// Not inlined: otherwise GCC sees malloc's memory reach operator delete and warns.
[[gnu::noinline]] void* operator new(size_t size) {
  if (void* memory = qkv::CountedAllocate(size, 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t size, std::align_val_t alignment) {
  if (void* memory = qkv::CountedAllocate(size, static_cast<size_t>(alignment))) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return qkv::CountedAllocate(size, 1);
}
[[gnu::noinline]] void* operator new(size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return qkv::CountedAllocate(size, static_cast<size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
