// A pool of threads that wait awake for a moment and then sleep. OpenMP's own waiting cannot be bounded from inside the
// program: on a machine that does other work too, its spinning made small models up to 80 times slower.
#include "qkv/core/parallel.h"

#ifdef __linux__
#include <pthread.h>
#include <sched.h>
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/core/fork.h"
#include "qkv/core/serial.h"
#include "qkv/core/thread_count.h"
#include "qkv/core/work.h"

namespace qkv {
namespace {

// Rounds of waiting awake, some 200 µs: longer than the gap between two loops of a model and the wait for the last task
// of one, shorter than a time slice. On a virtual machine a core that slept takes longest to wake: with 1000 rounds the
// median of ViT-B in int8, one pass every 200 ms, was 45 ms, with 6000 it is 26; beside two busy programs 88 and 63.
constexpr int kSpins = 6000;

// Between two questions of a caller that waits for tasks to its CancelScope.
constexpr std::chrono::milliseconds kAskWaiting{20};

// No more threads than this are started.
constexpr int kMostThreads = 1024;

int AvailableCores() {
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::atomic<int> g_threads{0};   // 0: not set, all cores
thread_local int t_threads = 0;  // of ThreadCount; 0: none
thread_local bool t_in_parallel = false;

inline void RelaxCore() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// The rest of a thread's share of a job, in one word: the next task and the end, and as many bits of the job's number
// as fit. A thread that advances `next` by compare-and-swap owns that task, and the job cannot end before the task
// does.
struct Ticket {
  static constexpr int kBits = 20;
  static constexpr uint64_t kMask = (uint64_t{1} << kBits) - 1;
  static uint64_t Make(uint32_t job, int64_t next, int64_t end) {
    return uint64_t{job} << (2 * kBits) | static_cast<uint64_t>(end) << kBits | static_cast<uint64_t>(next);
  }
  static uint64_t End(uint64_t ticket) { return ticket >> kBits & kMask; }
  static uint64_t Next(uint64_t ticket) { return ticket & kMask; }
  static bool BelongsToJob(uint32_t job, uint64_t ticket) {
    return ticket >> (2 * kBits) == (job & (~uint64_t{0} >> (2 * kBits)));
  }
};

// A line of the cache each: threads at work on their own shares do not disturb one another.
struct alignas(64) Share {
  std::atomic<uint64_t> ticket{0};
};

// Never destroyed: its threads end with the process.
class Pool {
 public:
  /// False when another thread uses the pool. `asked`, if not null, is asked while the caller waits.
  bool Run(int64_t count, internal::TaskBody body, void* context, int threads, const internal::CancelState* asked) {
    const std::unique_lock lock(busy_, std::try_to_lock);
    if (!lock) return false;
    StartWorkers(threads - 1);
    if (asleep_.load(std::memory_order_relaxed) > 0) KeepApart();
    body_ = body;
    context_ = context;
    threads_.store(threads, std::memory_order_relaxed);
    count_.store(static_cast<uint32_t>(count), std::memory_order_relaxed);
    done_.store(0, std::memory_order_relaxed);
    failed_.store(false, std::memory_order_relaxed);
    asks_.store(asked != nullptr, std::memory_order_relaxed);
    const uint32_t job = signal_.load(std::memory_order_relaxed) + 1;
    for (int i = 0; i < threads; ++i) {
      shares_[i].ticket.store(Ticket::Make(job, count * i / threads, count * (i + 1) / threads),
                              std::memory_order_release);
    }
    signal_.fetch_add(1, std::memory_order_release);
    signal_.notify_all();
    TakeTasks(job, 0);
    AwaitTasks(static_cast<uint32_t>(count), asked);
    if (failed_.load(std::memory_order_relaxed)) std::rethrow_exception(std::exchange(failure_, nullptr));
    return true;
  }

 private:
  void StartWorkers(int count) {
    try {
      while (static_cast<int>(workers_.size()) < count) {
        const int id = static_cast<int>(workers_.size()) + 1;
        workers_.emplace_back([this, id] { Work(id); });
        apart_from_ = -1;
      }
    } catch (const std::system_error&) {  // no more threads to be had: those that there are do the work
    }
  }

  // Bars the workers from the caller's core before they are woken. Linux likes to wake a thread where its waker runs;
  // there it waits for the end of the very loop that it was to share: on two virtual cores, ViT-Ti in int8, one pass
  // every 100 ms, worker and caller shared a core in half of the passes, and the median was 6.3 ms instead of 4.3.
  void KeepApart() {
#ifdef __linux__
    const int here = sched_getcpu();
    cpu_set_t cores;
    if (here < 0 || here == apart_from_ || sched_getaffinity(0, sizeof(cores), &cores) != 0) return;
    if (CPU_COUNT(&cores) <= static_cast<int>(workers_.size())) return;  // there is no core for each
    CPU_CLR(here, &cores);
    for (std::thread& worker : workers_) pthread_setaffinity_np(worker.native_handle(), sizeof(cores), &cores);
    apart_from_ = here;
#endif
  }

  // Takes its own share first, in order: from loop to loop a thread meets the rows that it wrote, in its own caches.
  // Then takes tasks that the others have not begun. A thread that meets a later job in another's share leaves it: that
  // job too begins with its own.
  void TakeTasks(uint32_t job, int thread) {
    t_in_parallel = true;
    const int threads = threads_.load(std::memory_order_relaxed);
    for (int i = 0; i < threads; ++i) TakeShare(job, shares_[(thread + i) % threads].ticket, thread);
    t_in_parallel = false;
  }

  void TakeShare(uint32_t job, std::atomic<uint64_t>& share, int thread) {
    uint64_t ticket = share.load(std::memory_order_acquire);
    // All workers wake, the job may be of fewer threads.
    while (Ticket::BelongsToJob(job, ticket) && Ticket::Next(ticket) < Ticket::End(ticket) &&
           thread < threads_.load(std::memory_order_relaxed)) {
      if (!share.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel)) continue;
      if (!failed_.load(std::memory_order_relaxed)) {
        try {
          body_(context_, static_cast<int64_t>(Ticket::Next(ticket)), thread);
        } catch (...) {
          KeepFailure();
        }
      }
      const uint32_t count = count_.load(std::memory_order_relaxed);
      const bool asks = asks_.load(std::memory_order_relaxed);
      if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 == count) WakeCaller(asks);
      ticket = share.load(std::memory_order_acquire);
    }
  }

  // Keeps the exception that is being handled, if it is the job's first.
  void KeepFailure() {
    const std::lock_guard lock(failure_mutex_);
    if (!failed_.exchange(true)) failure_ = std::current_exception();
  }

  void WakeCaller(bool asks) {
    if (!asks) return done_.notify_one();
    { const std::lock_guard lock(done_mutex_); }  // the caller has not looked yet, or waits
    done_changed_.notify_one();
  }

  void AwaitTasks(uint32_t count, const internal::CancelState* asked) {
    uint32_t done = done_.load(std::memory_order_acquire);
    for (int spin = 0; done != count && spin < kSpins; ++spin) {
      RelaxCore();
      done = done_.load(std::memory_order_acquire);
    }
    if (asked != nullptr) return AwaitAsking(count, *asked);
    while (done != count) {  // a worker lost its core in the middle of a task
      done_.wait(done, std::memory_order_acquire);
      done = done_.load(std::memory_order_acquire);
    }
  }

  // An atomic cannot be waited for with a limit of time. Once cancelled, tasks that are not begun are left out.
  void AwaitAsking(uint32_t count, const internal::CancelState& asked) {
    std::unique_lock lock(done_mutex_);
    const auto ended = [&] { return done_.load(std::memory_order_acquire) == count; };
    while (!done_changed_.wait_for(lock, kAskWaiting, ended)) {
      if (failed_.load(std::memory_order_relaxed)) continue;
      lock.unlock();
      try {
        if (asked.cancelled()) throw Cancelled();
      } catch (...) {
        KeepFailure();
      }
      lock.lock();
    }
  }

  void Work(int id) {
    uint32_t seen = 0;
    for (;;) {
      uint32_t now = signal_.load(std::memory_order_acquire);
      for (int spin = 0; now == seen && spin < kSpins; ++spin) {
        RelaxCore();
        now = signal_.load(std::memory_order_acquire);
      }
      if (now == seen) {
        asleep_.fetch_add(1, std::memory_order_relaxed);
        signal_.wait(seen, std::memory_order_acquire);
        asleep_.fetch_sub(1, std::memory_order_relaxed);
        continue;
      }
      seen = now;
      TakeTasks(seen, id);
    }
  }

  std::mutex busy_;
  std::vector<std::thread> workers_;
  internal::TaskBody body_ = nullptr;  // read only by owners of a task
  void* context_ = nullptr;
  int apart_from_ = -1;         // the core that workers are barred from
  std::atomic<int> asleep_{0};  // workers that must be woken
  std::exception_ptr failure_;
  std::mutex failure_mutex_;
  std::atomic<bool> failed_{false}, asks_{false};
  std::mutex done_mutex_;  // for a caller that asks
  std::condition_variable done_changed_;
  std::atomic<int> threads_{0};
  std::atomic<uint32_t> count_{0};
  std::array<Share, kMostThreads> shares_;
  // On its own cache line, so that claiming tasks does not slow down the waiting threads.
  alignas(64) std::atomic<uint32_t> done_{0};
  alignas(64) std::atomic<uint32_t> signal_{0};  // the number of the last job
};

constinit internal::PerProcess<Pool> g_pool;

}  // namespace

SerialLoops::SerialLoops() : before_(std::exchange(t_in_parallel, true)) {}
SerialLoops::~SerialLoops() { t_in_parallel = before_; }

bool InLoop() { return t_in_parallel; }

int NumThreads() {
  static const int cores = AvailableCores();
  if (t_in_parallel) return 1;
  if (t_threads > 0) return t_threads;
  const int set = g_threads.load(std::memory_order_relaxed);
  return set > 0 ? set : cores;
}

namespace {

int RequireThreads(int threads) {
  Require(threads >= 1, "threads: expected at least 1, got {}", threads);
  return threads;
}

}  // namespace

ThreadCount::ThreadCount(int threads) : before_(std::exchange(t_threads, RequireThreads(threads))) {}
ThreadCount::~ThreadCount() { t_threads = before_; }

void SetNumThreads(int threads) { g_threads.store(RequireThreads(threads), std::memory_order_relaxed); }

namespace internal {
namespace {

// The tasks of a loop whose caller may cancel it.
struct CancellableBody {
  TaskBody body;
  void* context;
  CancelState* cancel;
};

void RunCancellable(void* context, int64_t task, int thread) {
  const auto& whole = *static_cast<const CancellableBody*>(context);
  const ShareCancel share(whole.cancel);
  CheckTask();
  whole.body(whole.context, task, thread);
}

}  // namespace

void RunTasks(int64_t count, TaskBody body, void* context) {
  const auto threads = static_cast<int>(std::min<int64_t>({NumThreads(), count, kMostThreads}));
  const bool fits = count <= static_cast<int64_t>(Ticket::kMask);
  if (threads > 1 && fits && !t_in_parallel) {
    CancellableBody whole{body, context, t_work.cancel};
    const CancelState* const asked = ChecksTasks() ? whole.cancel : nullptr;
    if (whole.cancel == nullptr ? g_pool.Get().Run(count, body, context, threads, nullptr)
                                : g_pool.Get().Run(count, RunCancellable, &whole, threads, asked)) {
      return;
    }
  }
  for (int64_t task = 0; task < count; ++task) {
    CheckTask();
    body(context, task, 0);
  }
}

}  // namespace internal
}  // namespace qkv
