#include "qkv/server/cores.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>

#include "qkv/core/innermost_cancel.h"
#include "qkv/core/parallel.h"
#include "qkv/core/serial.h"
#include "qkv/core/work.h"

namespace qkv::server {
namespace {

using Clock = std::chrono::steady_clock;

// Interval at which a waiting request checks whether its client has gone.
constexpr std::chrono::milliseconds kLookForClient{25};
// Work lets other clients go first after this time.
constexpr std::chrono::milliseconds kTurn{20};
constexpr double kTurnSeconds = std::chrono::duration<double>(kTurn).count();
constexpr double kLeastCost = 1e-6;   // seconds: all work costs something
constexpr double kNewestShare = 0.2;  // of the last work in the running mean

// This thread has a core.
thread_local bool t_has_core = false;

}  // namespace

struct Cores::Entry : QueuedWork {
  Turn turn;
  Clock::time_point since;  // it has the core
  std::condition_variable given;
  bool has_core = false;
};

void Cores::Run(const std::string& client, const std::function<void()>& work) {
  if (t_has_core) return work();
  const auto entry = std::make_shared<Entry>();
  entry->turn.client = client;
  {
    const std::lock_guard lock(mutex_);
    entry->cost = std::max(kLeastCost, usual_);
    queue_.Add(entry, entry->turn);
    Give();
  }
  const std::function<bool()> cancelled = InnermostCancel();
  if (!Await(entry, cancelled)) throw Cancelled();
  struct Held {
    Cores& cores;
    const std::shared_ptr<Entry>& entry;
    ~Held() {
      t_has_core = false;
      const std::lock_guard lock(cores.mutex_);
      if (!entry->has_core) return;  // given up while it waited for its next turn
      cores.Finish(entry);
      cores.Give();
    }
  };
  t_has_core = true;
  const Held held{*this, entry};
  const SerialLoops serial;
  const CancelScope scope([&] { return !GiveWay(entry, cancelled) || cancelled(); });
  work();
}

int64_t Cores::waiting() const {
  const std::lock_guard lock(mutex_);
  return queue_.size();
}

// False if it was cancelled before it had a core.
bool Cores::Await(const std::shared_ptr<Entry>& entry, const std::function<bool()>& cancelled) {
  std::unique_lock lock(mutex_);
  while (!entry->given.wait_for(lock, kLookForClient, [&] { return entry->has_core; })) {
    lock.unlock();
    const bool gives_up = cancelled();
    lock.lock();
    if (!gives_up) continue;
    if (queue_.Remove(entry)) return false;
    Finish(entry);  // the core came meanwhile
    Give();
    return false;
  }
  return true;
}

// Lets other clients' work go first if this one has had its turn. The same client's other work waits: work that has
// begun holds memory. False if it was cancelled meanwhile, without a core.
bool Cores::GiveWay(const std::shared_ptr<Entry>& entry, const std::function<bool()>& cancelled) {
  if (!entry->has_core) return false;
  if (Clock::now() - entry->since < kTurn) return true;
  {
    const std::lock_guard lock(mutex_);
    if (!queue_.First([&](const QueuedWork& work) { return work.client != entry->client; })) return true;
    const double finish = entry->finish;
    const uint64_t number = entry->number;
    Finish(entry);
    entry->cost = kTurnSeconds;
    queue_.Add(entry, entry->turn);
    entry->finish = finish, entry->number = number;  // before its client's other work
    Give();
  }
  return Await(entry, cancelled);
}

// Called under the lock.
void Cores::Finish(const std::shared_ptr<Entry>& entry) {
  const double seconds = std::chrono::duration<double>(Clock::now() - entry->since).count();
  queue_.Finish(entry, seconds);
  usual_ += kNewestShare * (seconds - usual_);
  entry->has_core = false;
  ++free_;
}

// Called under the lock.
void Cores::Give() {
  while (free_ > 0 && queue_.size() > 0) {
    const auto next = std::static_pointer_cast<Entry>(queue_.First([](const QueuedWork&) { return true; }));
    queue_.Take(next);
    --free_;
    next->has_core = true;
    next->since = Clock::now();
    next->given.notify_one();
  }
}

}  // namespace qkv::server
