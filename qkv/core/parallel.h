// Loops over all cores of one machine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace qkv {

/// Threads of a parallel loop started here: by default all cores of the process's affinity mask; 1 inside of another
/// loop.
int NumThreads();
/// Throws Error when `threads` < 1.
void SetNumThreads(int threads);

namespace internal {
using TaskBody = void (*)(void* context, int64_t task, int thread);
/// Runs tasks 0…count-1, each once, on up to NumThreads() threads. Rethrows the first exception after all have ended.
void RunTasks(int64_t count, TaskBody body, void* context);
}  // namespace internal

/// Calls f(task, thread) for each task = 0…count-1; 0 <= thread < NumThreads(). Thread t of T starts with the t-th of T
/// equal shares and then takes tasks of the others, so loops of the same shape find their data in their own caches.
/// Nested loops, and loops of a second thread while another loop runs, run on the calling thread as thread 0. A forked
/// child has loops on threads of its own, unless it was forked by a task.
template <typename F>
void ParallelTasks(int64_t count, F&& f) {
  internal::RunTasks(
      count,
      [](void* context, int64_t task, int thread) {
        (*static_cast<std::remove_reference_t<F>*>(context))(task, thread);
      },
      const_cast<void*>(static_cast<const void*>(&f)));
}

/// Calls f(begin, end) for consecutive pieces of [0, n), `grain` long (the last may be shorter).
/// The pieces do not depend on the number of threads.
template <typename F>
void ParallelFor(int64_t n, int64_t grain, F&& f) {
  const int64_t pieces = (n + grain - 1) / grain;
  if (pieces <= 1) {
    if (n > 0) f(int64_t{0}, n);
    return;
  }
  ParallelTasks(pieces, [&](int64_t piece, int) { f(piece * grain, std::min(n, (piece + 1) * grain)); });
}

}  // namespace qkv
