#include "qkv/core/work.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/innermost_cancel.h"

namespace qkv {
namespace {

// Steps between two looks at the clock or the budget: some 100 µs.
constexpr int64_t kLook = int64_t{1} << 15;
// Between two questions to the scope, which may take locks.
constexpr std::chrono::milliseconds kAsk{5};

thread_local const WorkBudget* t_budget = nullptr;
thread_local std::chrono::steady_clock::time_point t_asked;

}  // namespace

namespace internal {

constinit thread_local WorkMeter t_work;

void LookAtWork() {
  WorkMeter& work = t_work;
  work.next = work.steps + kLook;
  if (work.bounded) {
    if (work.steps > work.most) {
      work.next = work.steps;  // each further step throws too
      Fail("{}: takes more than {} steps", EscapedText{t_budget->what_}, t_budget->steps_);
    }
    work.next = std::min(work.next, work.most + 1);
  }
  if (work.cancel != nullptr) AskCancelled();
}

void AskCancelled() {
  WorkMeter& work = t_work;
  const auto now = std::chrono::steady_clock::now();
  if (now - t_asked < kAsk) return;
  t_asked = now;
  if (work.cancel->cancelled()) {
    work.next = work.steps;  // the next step asks again
    t_asked = {};
    throw Cancelled();
  }
}

ShareCancel::ShareCancel(CancelState* cancel) : before_(std::exchange(t_work.cancel, cancel)) {
  if (cancel == before_) return;  // a task on the caller's own thread, which has asked
  t_work.next = t_work.steps;
  t_asked = {};
}
ShareCancel::~ShareCancel() {
  if (t_work.cancel == before_) return;
  t_work.cancel = before_;
  t_asked = {};
}

}  // namespace internal

bool IsCancelled() { return internal::t_work.cancel != nullptr && internal::t_work.cancel->cancelled(); }

void CheckCancelled() {
  if (IsCancelled()) throw Cancelled();
}

std::function<bool()> InnermostCancel() {
  return [cancel = internal::t_work.cancel] { return cancel != nullptr && cancel->cancelled(); };
}

CancelScope::CancelScope(std::function<bool()> cancelled, CancelChecks checks)
    : state_(std::move(cancelled), checks), share_(&state_) {}

WorkBudget::WorkBudget(int64_t steps, std::string what)
    : what_(std::move(what)), steps_(steps), outer_(t_budget), before_(internal::t_work) {
  internal::WorkMeter& work = internal::t_work;
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const int64_t most = work.steps > kMost - steps ? kMost - 1 : work.steps + steps;
  work.most = work.bounded ? std::min(work.most, most) : most;
  work.bounded = true;
  work.next = std::min(work.next, work.most + 1);
  t_budget = this;
}

WorkBudget::~WorkBudget() {
  internal::WorkMeter& work = internal::t_work;
  work.most = before_.most;
  work.bounded = before_.bounded;
  work.next = work.steps;
  t_budget = outer_;
}

}  // namespace qkv
