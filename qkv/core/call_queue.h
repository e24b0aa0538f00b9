// Calls of several threads, of which one at a time has all cores.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "qkv/core/fork.h"

namespace qkv {

/// Loops of a second thread run beside a first one's on that thread alone (parallel.h): of some threads with calls one
/// would be fast, the others slow. Here they take turns, in the order in which they came. Never destroyed (PerProcess):
/// make it static. A forked child has an empty queue, whatever ran at the fork.
class CallQueue {
 public:
  /// A call that pauses (pause.h) goes to the end of the queue if others wait and its turn has lasted so long.
  constexpr explicit CallQueue(std::chrono::nanoseconds turn = std::chrono::milliseconds(20)) : turn_(turn) {}

  /// Runs `work` on this thread when it is its turn; in another call or a loop of this thread at once. Throws what
  /// `work` throws, and Cancelled if this thread's CancelScope is cancelled while it waits, which is checked every
  /// 20 ms. While `work` pauses others run: it holds no lock there that these take.
  void Run(const std::function<void()>& work);
  /// Number of calls that wait for their turn.
  int64_t waiting();

 private:
  struct State;
  class Place;

  const std::chrono::nanoseconds turn_;
  internal::PerProcess<State> state_;
};

}  // namespace qkv
