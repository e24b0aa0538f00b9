// Processes that fork. A child has its parent's memory, but only the thread that called fork; locks stay as the other
// threads held them, for ever. For internal use.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace qkv::internal {

/// Forks between the program's first process and this one, since this library was loaded.
uint32_t Forks();

/// One T in each process: a child makes its own when it first needs one, and abandons its parent's, of which locks may
/// be held and threads are missing. It is never destroyed, as threads may use it while the process exits. So make it
/// static.
template <typename T>
class PerProcess {
 public:
  constexpr PerProcess() = default;
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;

  /// Thread-safe.
  T& Get() {
    const uint32_t forks = Forks();
    Entry* entry = entry_.load(std::memory_order_acquire);
    while (entry == nullptr || entry->forks != forks) {
      auto fresh = std::make_unique<Entry>(forks, entry);
      if (entry_.compare_exchange_strong(entry, fresh.get(), std::memory_order_acq_rel)) entry = fresh.release();
    }
    return entry->value;
  }

 private:
  struct Entry {
    Entry(uint32_t of, Entry* parent) : forks(of), abandoned(parent) {}
    const uint32_t forks;
    Entry* const abandoned;  // kept in sight of leak checkers
    T value;
  };

  std::atomic<Entry*> entry_{nullptr};
};

}  // namespace qkv::internal
