// Waiting for other threads that work on the same call.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "qkv/core/work.h"

namespace qkv {

/// Waits until `ready`, which is called under the lock. Throws Cancelled as CheckTask (work.h), which is called every
/// 20 ms without the lock.
template <typename F>
void AwaitOrCancel(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, F ready) {
  if (!ChecksTasks()) return changed.wait(lock, ready);
  while (!changed.wait_for(lock, std::chrono::milliseconds(20), ready)) {
    lock.unlock();
    CheckTask();
    lock.lock();
  }
}

}  // namespace qkv
