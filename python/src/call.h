// A call from Python into the engine: without the interpreter's lock, one at a time, ended by Ctrl-C.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "qkv/app/open/note.h"
#include "qkv/core/call_queue.h"
#include "qkv/core/work.h"

namespace qkv::python {

namespace nb = nanobind;

/// What an exception of Python does, such as KeyboardInterrupt, that comes while a call computes.
enum class OnException {
  kCancel,  // ends the work at once
  kStop,    // stopped() becomes true, and the work ends when it can be continued later; a second one ends it at once
};

/// Made and destroyed by the thread that calls, with the interpreter's lock.
class Call {
 public:
  /// threads: cores for this call; 0: all.
  explicit Call(int threads = 0, OnException on_exception = OnException::kCancel);
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  /// Hands on remarks that Run has left, of a call that failed.
  ~Call();

  /// Keeps remarks until the call ends.
  app::Note note();
  /// Calls `progress(count)`, unless it is None. An exception of it ends the call. `progress` outlives the call.
  std::function<void(int64_t)> Progress(nb::handle progress);
  /// Runs `use`, which calls Python, with the interpreter's lock, if no exception has come yet. One of it ends the
  /// call.
  void InPython(const std::function<void()>& use);
  /// True once an exception has come. From any thread.
  bool stopped();

  /// Ends the call with this exception, from within Run: what a function of Python raised.
  [[noreturn]] void Fail(nb::python_error& error);

  /// Computes without the interpreter's lock, when the calls of other threads before have ended or give way. Throws
  /// what `work` throws, and KeyboardInterrupt.
  template <typename F>
  std::invoke_result_t<F> Run(F&& work) {
    using Result = std::invoke_result_t<F>;
    try {
      if constexpr (std::is_void_v<Result>) {
        RunQueued(work);
        End();
      } else {
        std::optional<Result> result;
        RunQueued([&] { result.emplace(work()); });
        End();
        return std::move(*result);
      }
    } catch (const Cancelled&) {
      RaiseIfAny();
      throw;
    }
  }

 private:
  void RunQueued(const std::function<void()>& work);
  /// Keeps what Python's handlers of signals raise, on the thread that calls.
  void LookForSignals();
  bool IsCancelled();
  void Keep(nb::python_error& error);
  void RaiseIfAny();
  /// Hands remarks on to qkv._notes. Throws what Python's filters of warnings make an error.
  void Tell();
  void End() {
    RaiseIfAny();
    Tell();
  }

  const int threads_;
  const int cancels_;        // after so many exceptions
  const bool gets_signals_;  // on the thread that calls
  const std::thread::id caller_ = std::this_thread::get_id();
  std::chrono::steady_clock::time_point looked_at_ = std::chrono::steady_clock::now();  // of the caller alone
  std::atomic<int> exceptions_{0};
  std::mutex mutex_;
  std::optional<nb::python_error> error_;  // the first of them
  std::vector<std::string> notes_;
};

}  // namespace qkv::python
