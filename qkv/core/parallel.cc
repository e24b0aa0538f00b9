#include "qkv/core/parallel.h"

#include <omp.h>
#include <sched.h>

#include <atomic>
#include <mutex>

#include "qkv/core/error.h"

namespace qkv {
namespace {

int AvailableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, omp_get_num_procs());
}

std::atomic<int> g_threads{0};  // 0: not set, all cores

}  // namespace

int NumThreads() {
  static const int cores = AvailableCores();
  const int set = g_threads.load(std::memory_order_relaxed);
  return set > 0 ? set : cores;
}

void SetNumThreads(int threads) {
  Require(threads >= 1, "threads: expected at least 1, got {}", threads);
  g_threads.store(threads, std::memory_order_relaxed);
}

namespace internal {

void RunTasks(int64_t count, TaskBody body, void* context) {
  const int threads = static_cast<int>(std::min<int64_t>(NumThreads(), count));
  if (threads <= 1 || omp_in_parallel()) {
    for (int64_t task = 0; task < count; ++task) body(context, task, 0);
    return;
  }
  std::atomic<int64_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
#pragma omp parallel num_threads(threads)
  {
    const int thread = omp_get_thread_num();
    try {
      for (int64_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < count;) body(context, task, thread);
    } catch (...) {
      next.store(count, std::memory_order_relaxed);
      const std::lock_guard lock(failure_mutex);
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace internal
}  // namespace qkv
