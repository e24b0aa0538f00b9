#include "tests/hostile/heap.h"

#include <atomic>

#if defined(__SANITIZE_ADDRESS__)
// As in compiler-rt's sanitizer/allocator_interface.h, which GCC has the functions of, but not the file.
extern "C" {
int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void*, size_t),
                                              void (*free_hook)(const volatile void*));
size_t __sanitizer_get_allocated_size(const volatile void* memory);
}
#endif

namespace qkv::hostile {
namespace {

std::atomic<size_t> g_used{0}, g_peak{0};

#if defined(__SANITIZE_ADDRESS__)
void Allocated(const volatile void*, size_t size) {
  const size_t used = g_used.fetch_add(size, std::memory_order_relaxed) + size;
  size_t peak = g_peak.load(std::memory_order_relaxed);
  while (used > peak && !g_peak.compare_exchange_weak(peak, used, std::memory_order_relaxed)) {
  }
}

void Freed(const volatile void* memory) {
  if (memory == nullptr) return;
  g_used.fetch_sub(__sanitizer_get_allocated_size(memory), std::memory_order_relaxed);
}

// Before anything is allocated that is counted. What was there before is freed uncounted; few bytes at the end.
const int kInstalled = __sanitizer_install_malloc_and_free_hooks(Allocated, Freed);
bool Installed() { return kInstalled > 0; }
#else
bool Installed() { return false; }
#endif

}  // namespace

bool CountsHeap() { return Installed(); }

HeapWatch::HeapWatch() : base_(g_used.load()) { g_peak.store(base_); }

size_t HeapWatch::Peak() const {
  const size_t peak = g_peak.load();
  return peak > base_ ? peak - base_ : 0;
}

}  // namespace qkv::hostile
