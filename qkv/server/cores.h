// Cores for work beside the engine's, on requests' own threads: clients take turns at them as in the engine
// (fair_queue.h).
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

  /// Does `work` on this thread, alone, when it is the client's turn and a core is free; within such work at once.
  /// Where the work asks whether it is wanted (core/work.h), it gives its core to other clients from time to time, and
  /// waits for its turn again: so it must not hold a lock there. Throws what it throws, and Cancelled if this thread's
  /// CancelScope says so while it waits.
  void Run(const std::string& client, const std::function<void()>& work);
  /// Work that waits.
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
