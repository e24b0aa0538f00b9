#include "qkv/server/cores.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>

#include "qkv/core/parallel.h"
#include "qkv/core/serial.h"
#include "qkv/core/work.h"

namespace qkv::server {
namespace {

// How often a waiting request looks whether its client has gone.
constexpr std::chrono::milliseconds kLookForClient{25};
constexpr double kLeastCost = 1e-6;   // seconds: each work costs something
constexpr double kNewestShare = 0.2;  // of the last work in the running mean

// This thread has a core.
thread_local bool t_has_core = false;

}  // namespace

struct Cores::Entry : QueuedWork {
  std::condition_variable given;
  bool has_core = false;
};

void Cores::Run(const std::string& client, const std::function<void()>& work) {
  if (t_has_core) return work();
  const auto entry = std::make_shared<Entry>();
  Turn turn{.client = client};
  {
    const std::lock_guard lock(mutex_);
    entry->cost = std::max(kLeastCost, usual_);
    queue_.Add(entry, turn);
    Give();
  }
  Await(entry);
  struct Held {
    Cores& cores;
    const std::shared_ptr<Entry>& entry;
    const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
    ~Held() {
      t_has_core = false;
      cores.Finish(entry, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
  };
  t_has_core = true;
  const Held held{*this, entry};
  const SerialLoops serial;
  work();
}

int64_t Cores::waiting() const {
  const std::lock_guard lock(mutex_);
  return queue_.size();
}

void Cores::Await(const std::shared_ptr<Entry>& entry) {
  std::unique_lock lock(mutex_);
  while (!entry->has_core) {
    if (entry->given.wait_for(lock, kLookForClient, [&] { return entry->has_core; })) return;
    lock.unlock();
    const bool cancelled = IsCancelled();
    lock.lock();
    if (!cancelled) continue;
    if (!queue_.Remove(entry)) {  // the core came meanwhile
      queue_.Finish(entry, 0);
      ++free_;
      Give();
    }
    throw Cancelled();
  }
}

void Cores::Finish(const std::shared_ptr<Entry>& entry, double seconds) {
  const std::lock_guard lock(mutex_);
  queue_.Finish(entry, seconds);
  usual_ += kNewestShare * (seconds - usual_);
  ++free_;
  Give();
}

// Under the lock.
void Cores::Give() {
  while (free_ > 0 && queue_.size() > 0) {
    const auto next = std::static_pointer_cast<Entry>(queue_.First([](const QueuedWork&) { return true; }));
    queue_.Take(next);
    --free_;
    next->has_core = true;
    next->given.notify_one();
  }
}

}  // namespace qkv::server
