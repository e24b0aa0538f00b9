// Counts the bytes that the program has from malloc, in C libraries too, and can refuse more. It replaces malloc of the
// whole program; include it in one source of a test only. Under a sanitizer it counts by its hooks, and refuses
// nothing.
#pragma once

#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define QKV_SANITIZED_HEAP 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define QKV_SANITIZED_HEAP 1
#endif
#endif
#ifdef QKV_SANITIZED_HEAP
#include <sanitizer/allocator_interface.h>
#endif

namespace qkv {
namespace internal {
inline std::atomic<int64_t> g_heap_bytes{0}, g_heap_peak{0}, g_heap_limit{std::numeric_limits<int64_t>::max()};

inline void AddToHeap(int64_t bytes) {
  const int64_t now = g_heap_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t peak = g_heap_peak.load(std::memory_order_relaxed);
  while (now > peak && !g_heap_peak.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}
#ifdef QKV_SANITIZED_HEAP
inline const int g_heap_hooks = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, size_t bytes) { AddToHeap(static_cast<int64_t>(bytes)); },
    [](const volatile void* memory) {
      AddToHeap(-static_cast<int64_t>(__sanitizer_get_allocated_size(const_cast<const void*>(memory))));
    });
#else
/// Null if the limit does not leave so many bytes.
template <typename Allocate>
void* CountedMemory(size_t bytes, Allocate allocate) {
  const int64_t limit = g_heap_limit.load(std::memory_order_relaxed);
  void* const memory =
      static_cast<int64_t>(bytes) < 0 || g_heap_bytes + static_cast<int64_t>(bytes) > limit ? nullptr : allocate();
  if (memory == nullptr) {
    errno = ENOMEM;
  } else {
    AddToHeap(static_cast<int64_t>(::malloc_usable_size(memory)));
  }
  return memory;
}
#endif
}  // namespace internal

/// The most bytes that the program has had beyond those at the beginning. While it lives, malloc fails beyond `limit`
/// such bytes.
class HeapPeak {
 public:
  explicit HeapPeak(int64_t limit = std::numeric_limits<int64_t>::max() / 2) : before_(internal::g_heap_bytes) {
    internal::g_heap_peak = before_;
    internal::g_heap_limit = before_ + limit;
  }
  ~HeapPeak() { internal::g_heap_limit = std::numeric_limits<int64_t>::max(); }
  HeapPeak(const HeapPeak&) = delete;
  HeapPeak& operator=(const HeapPeak&) = delete;

  int64_t bytes() const { return internal::g_heap_peak - before_; }

 private:
  const int64_t before_;
};

}  // namespace qkv

#ifndef QKV_SANITIZED_HEAP
// NOLINTBEGIN: names of the C library
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* memory);

[[gnu::noinline]] void* malloc(size_t bytes) {
  return qkv::internal::CountedMemory(bytes, [&] { return __libc_malloc(bytes); });
}
[[gnu::noinline]] void* calloc(size_t count, size_t bytes) {
  size_t all = 0;
  if (__builtin_mul_overflow(count, bytes, &all)) all = SIZE_MAX;
  return qkv::internal::CountedMemory(all, [&] { return __libc_calloc(count, bytes); });
}
[[gnu::noinline]] void* aligned_alloc(size_t alignment, size_t bytes) {
  return qkv::internal::CountedMemory(bytes, [&] { return __libc_memalign(alignment, bytes); });
}
[[gnu::noinline]] void* memalign(size_t alignment, size_t bytes) { return aligned_alloc(alignment, bytes); }
[[gnu::noinline]] int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  *memory = aligned_alloc(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
[[gnu::noinline]] void free(void* memory) {
  if (memory == nullptr) return;
  const int saved = errno;
  qkv::internal::AddToHeap(-static_cast<int64_t>(::malloc_usable_size(memory)));
  __libc_free(memory);
  errno = saved;
}
[[gnu::noinline]] void* realloc(void* memory, size_t bytes) {
  if (memory == nullptr) return malloc(bytes);
  // As if both were there at a time, which they are where it moves.
  const auto before = static_cast<int64_t>(::malloc_usable_size(memory));
  void* const moved = qkv::internal::CountedMemory(bytes, [&] { return __libc_realloc(memory, bytes); });
  if (moved != nullptr || bytes == 0) qkv::internal::AddToHeap(-before);
  return moved;
}
}
// NOLINTEND
#endif
