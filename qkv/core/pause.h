// Long work that lets other work go first between its steps.
#pragma once

#include <functional>

namespace qkv {

/// Called between steps of some ten milliseconds, at the top of work, where no scratch memory of this thread is in use.
/// Throws Cancelled as CheckCancelled (work.h). Then calls the function of this thread's innermost PauseScope, if there
/// is one, but not in a loop (parallel.h) on several threads. That may throw.
void Pause();

/// While it lives, Pause on this thread calls `others`, which may do other work; to that nothing is said.
class PauseScope {
 public:
  explicit PauseScope(std::function<void()> others);
  ~PauseScope();
  PauseScope(const PauseScope&) = delete;
  PauseScope& operator=(const PauseScope&) = delete;

 private:
  friend void Pause();
  const std::function<void()> others_;
  PauseScope* const before_;
};

}  // namespace qkv
