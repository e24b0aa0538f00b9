#include "python/src/call.h"

#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "python/src/interpreter_lock.h"
#include "qkv/core/parallel.h"
#include "qkv/core/thread_count.h"

namespace qkv::python {
namespace {

// How often the calling thread asks Python for signals: Ctrl-C ends a call within 100 ms.
constexpr std::chrono::milliseconds kLookEvery{15};

// Signals reach Python's handlers on the main thread alone; others would ask for the interpreter's lock for nothing.
bool MayReceiveSignals() {
#ifdef __linux__
  return ::syscall(SYS_gettid) == ::getpid();
#else
  return true;
#endif
}

CallQueue& Queue() {
  static CallQueue queue;
  return queue;
}

}  // namespace

Call::Call(int threads, OnException on_exception)
    : threads_(threads), cancels_(on_exception == OnException::kStop ? 2 : 1), gets_signals_(MayReceiveSignals()) {}

Call::~Call() {
  try {
    const nb::error_scope pending;
    Tell();
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("qkv");
  }
}

void Call::Tell() {
  if (notes_.empty()) return;
  const nb::object tell = nb::module_::import_("qkv._notes").attr("tell");
  for (const std::string& note : std::exchange(notes_, {})) tell(nb::str(note.data(), note.size()));
}

app::Note Call::note() {
  return [this](const std::string& text) {
    const std::lock_guard lock(mutex_);
    notes_.push_back(text);
  };
}

std::function<void(int64_t)> Call::Progress(nb::handle progress) {
  if (progress.is_none()) return {};
  return [this, progress](int64_t count) { InPython([&] { progress(count); }); };
}

void Call::InPython(const std::function<void()>& use) {
  if (exceptions_ > 0) return;
  const WithLock lock;
  try {
    use();
  } catch (nb::python_error& error) {
    Keep(error);
  }
}

void Call::Fail(nb::python_error& error) {
  Keep(error);
  throw Cancelled();
}

void Call::RunQueued(const std::function<void()>& work) {
  const WithoutLock release;
  const CancelScope scope([this] { return IsCancelled(); }, CancelChecks::kInTasks);
  Queue().Run([&] {
    // As it is now, for all of the call: others may change it while it gives way.
    const ThreadCount threads(threads_ > 0 ? threads_ : NumThreads());
    work();
  });
}

bool Call::stopped() {
  LookForSignals();
  return exceptions_ > 0 || IsLeaving();
}

bool Call::IsCancelled() {
  LookForSignals();
  return exceptions_ >= cancels_ || IsLeaving();
}

void Call::LookForSignals() {
  if (!gets_signals_ || IsLeaving() || std::this_thread::get_id() != caller_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_at_ < kLookEvery) return;
  looked_at_ = now;
  const WithLock lock;
  if (PyErr_CheckSignals() == 0) return;
  nb::python_error error;  // takes what the handler raised
  Keep(error);
}

void Call::Keep(nb::python_error& error) {
  const std::lock_guard lock(mutex_);
  if (!error_) error_.emplace(std::move(error));
  ++exceptions_;
}

void Call::RaiseIfAny() {
  if (exceptions_ == 0) return;
  const std::lock_guard lock(mutex_);
  nb::python_error error = std::move(*error_);
  throw error;
}

}  // namespace qkv::python
