#include "qkv/core/call_queue.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "qkv/core/innermost_cancel.h"
#include "qkv/core/pause.h"
#include "qkv/core/serial.h"
#include "qkv/core/work.h"

namespace qkv {
namespace {

using QueueClock = std::chrono::steady_clock;

// Between two questions of a waiting call to its CancelScope.
constexpr std::chrono::milliseconds kAskInQueue{20};

// This thread is in Run. Before its turn too: what it is asked then may call Run, and has to come before it.
thread_local bool t_in_call = false;

}  // namespace

struct CallQueue::State {
  std::mutex mutex;
  bool taken = false;          // a call has its turn
  std::deque<Place*> waiting;  // in the order of their turns
};

// A call's place in the queue while it waits, and its turn afterwards.
class CallQueue::Place {
 public:
  explicit Place(State& state) : state_(state) {
    const std::lock_guard lock(state_.mutex);
    state_.waiting.push_back(this);
    if (!state_.taken) GiveTurn();
  }
  ~Place() {
    t_in_call = false;
    if (IsAbandoned()) return;
    const std::lock_guard lock(state_.mutex);
    if (has_turn_) {
      GiveTurn();
    } else {
      std::erase(state_.waiting, this);
    }
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  // Waits for its turn. Throws Cancelled.
  void Await() {
    t_in_call = true;
    const std::function<bool()> cancelled = InnermostCancel();
    std::unique_lock lock(state_.mutex);
    while (!given_.wait_for(lock, kAskInQueue, [&] { return has_turn_; })) {
      lock.unlock();
      if (cancelled()) throw Cancelled();
      lock.lock();
    }
    since_ = QueueClock::now();
  }

  // Waits for its next turn if others wait and this one has lasted for `turn`.
  void GiveWay(std::chrono::nanoseconds turn) {
    if (IsAbandoned() || QueueClock::now() - since_ < turn) return;
    {
      const std::lock_guard lock(state_.mutex);
      if (state_.waiting.empty()) return;
      has_turn_ = false;
      state_.waiting.push_back(this);
      GiveTurn();
    }
    Await();
  }

 private:
  // In a child that this thread forked during the call.
  bool IsAbandoned() const { return forks_ != internal::Forks(); }

  // To the first that waits. Called under the lock, by the one whose turn ends.
  void GiveTurn() {
    state_.taken = !state_.waiting.empty();
    if (!state_.taken) return;
    Place& next = *state_.waiting.front();
    state_.waiting.pop_front();
    next.has_turn_ = true;
    next.given_.notify_one();
  }

  State& state_;
  const uint32_t forks_ = internal::Forks();
  bool has_turn_ = false;  // under the lock
  std::condition_variable given_;
  QueueClock::time_point since_;
};

void CallQueue::Run(const std::function<void()>& work) {
  if (t_in_call || InLoop()) return work();
  Place place(state_.Get());
  place.Await();
  const PauseScope steps([&] { place.GiveWay(turn_); });
  work();
}

int64_t CallQueue::waiting() {
  State& state = state_.Get();
  const std::lock_guard lock(state.mutex);
  return std::ssize(state.waiting);
}

}  // namespace qkv
