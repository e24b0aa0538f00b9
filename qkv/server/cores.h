// Cores for work on requests' own threads, beside the engine's: clients take turns as in the engine (fair_queue.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "qkv/server/fair_queue.h"

namespace qkv::server {

class Cores {
 public:
  explicit Cores(int64_t count) : free_(count) {}

  /// Runs `work` on this thread when it is the client's turn and a core is free; inside such work at once. When the
  /// work checks for cancellation (core/work.h), it gives its core to other clients from time to time and waits for its
  /// next turn: so it must not hold a lock there. Throws what `work` throws, and Cancelled if this thread's CancelScope
  /// is cancelled while it waits.
  void Run(const std::string& client, const std::function<void()>& work);
  /// Number of works that wait.
  int64_t waiting() const;

 private:
  struct Entry;

  bool Await(const std::shared_ptr<Entry>& entry, const std::function<bool()>& cancelled);
  bool GiveWay(const std::shared_ptr<Entry>& entry, const std::function<bool()>& cancelled);
  void Finish(const std::shared_ptr<Entry>& entry);
  void Give();

  mutable std::mutex mutex_;
  FairQueue queue_;
  int64_t free_;
  double usual_ = 0.001;  // seconds of a turn, a running mean
};

}  // namespace qkv::server
