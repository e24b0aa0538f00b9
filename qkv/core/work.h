// Work that can be given up and bounded. Loops whose length a file or a client decides count their steps here; so a
// caller can stop them, a budget ends them, and tests compare how they grow.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace qkv {

/// Thrown by work whose result is no longer wanted. Not an Error: neither a file nor a request is at fault, and readers
/// that skip what cannot be read go on after an Error.
class Cancelled : public std::exception {
 public:
  const char* what() const noexcept override { return "cancelled"; }
};

/// When the function of a CancelScope is called.
enum class CancelChecks {
  kBetweenSteps,  // by Spend and CheckCancelled: rows of an image, blocks of a pass; it may wait there for other work
  kInTasks,       // also by CheckTask, and every 20 ms while this thread waits for tasks of other threads: locks may be
                  // held there, so it must not wait for other work
};

namespace internal {
class CancelState {
 public:
  CancelState(std::function<bool()> cancelled, CancelChecks checks)
      : cancelled_(std::move(cancelled)), in_tasks_(checks == CancelChecks::kInTasks) {}
  bool cancelled() const { return cancelled_ && cancelled_(); }
  bool in_tasks() const { return in_tasks_; }

 private:
  const std::function<bool()> cancelled_;
  const bool in_tasks_;
};
/// Lets this thread's work be cancelled as another thread's is, which waits for it.
class ShareCancel {
 public:
  explicit ShareCancel(CancelState* cancel);
  ~ShareCancel();
  ShareCancel(const ShareCancel&) = delete;
  ShareCancel& operator=(const ShareCancel&) = delete;

 private:
  CancelState* before_;
};
// Steps counted by one thread.
struct WorkMeter {
  int64_t steps = 0;     // since the thread began
  int64_t next = 0;      // steps at which to look again
  int64_t most = 0;      // the budget's end, in steps
  bool bounded = false;  // by a budget
  CancelState* cancel = nullptr;
};
extern constinit thread_local WorkMeter t_work;
void LookAtWork();
void AskCancelled();
}  // namespace internal

/// Counts steps of this thread, each of a few nanoseconds: bytes looked at, nodes visited. Throws Cancelled if the
/// innermost CancelScope is cancelled, which is checked every few milliseconds, and Error beyond a WorkBudget.
inline void Spend(int64_t steps) {
  internal::WorkMeter& work = internal::t_work;
  work.steps += steps;
  if (work.steps >= work.next) [[unlikely]] {
    internal::LookAtWork();
  }
}

/// Steps that this thread has counted so far.
inline int64_t StepsDone() { return internal::t_work.steps; }

/// True if the innermost CancelScope is cancelled: for C libraries' callbacks, which must not throw.
bool IsCancelled();
/// Throws Cancelled then. For steps that take a millisecond or more themselves.
void CheckCancelled();

/// Whether the innermost CancelScope has kInTasks.
inline bool ChecksTasks() {
  const internal::CancelState* const cancel = internal::t_work.cancel;
  return cancel != nullptr && cancel->in_tasks();
}

/// Throws Cancelled if ChecksTasks and the scope is cancelled, which is checked every few milliseconds. Every task of a
/// parallel loop (parallel.h) begins with it. For other short steps that may hold a lock.
inline void CheckTask() {
  if (ChecksTasks()) [[unlikely]] {
    internal::AskCancelled();
  }
}

/// While it lives, work on this thread and in the parallel loops that it starts is given up once `cancelled` returns
/// true. It is called from several threads. A scope within another replaces it, so work for others can be done between.
class CancelScope {
 public:
  explicit CancelScope(std::function<bool()> cancelled, CancelChecks checks = CancelChecks::kBetweenSteps);
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;

 private:
  internal::CancelState state_;
  internal::ShareCancel share_;
};

/// Limits the steps of this thread during its lifetime; beyond them Spend throws Error, whose message begins with
/// `what` ("encode: a text of 300000 bytes"). A budget within another has at most what that one has left, and takes
/// from it.
class WorkBudget {
 public:
  WorkBudget(int64_t steps, std::string what);
  ~WorkBudget();
  WorkBudget(const WorkBudget&) = delete;
  WorkBudget& operator=(const WorkBudget&) = delete;

 private:
  friend void internal::LookAtWork();
  const std::string what_;
  const int64_t steps_;
  const WorkBudget* const outer_;
  const internal::WorkMeter before_;
};

}  // namespace qkv
