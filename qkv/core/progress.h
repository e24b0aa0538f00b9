// Progress of one thread's work, for threads that follow it.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace qkv {

/// Announces that `steps` are done, and publishes all earlier writes (release).
inline void ReportProgress(int64_t& progress, int64_t steps) {
  std::atomic_ref(progress).store(steps, std::memory_order_release);
}

/// Spins until another thread has announced at least `steps`. That thread must already be running.
inline void AwaitProgress(int64_t& progress, int64_t steps) {
  constexpr int kSpins = 1000;  // some 30 µs of x86's pauses; then the other thread may need this one's core
  const std::atomic_ref told(progress);
  for (int spin = 0; told.load(std::memory_order_acquire) < steps; ++spin) {
    if (spin >= kSpins) {
      std::this_thread::yield();
      continue;
    }
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
}

}  // namespace qkv
