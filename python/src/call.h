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

/// Made and destroyed by the thread that calls, with the interpreter's lock.
class Call {
 public:
  /// threads: cores for this call; 0: all.
  explicit Call(int threads = 0) : threads_(threads) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  /// Hands on remarks that Run has left, of a call that failed.
  ~Call();

  /// Keeps remarks until the call ends.
  app::Note note();
  /// Calls `progress(count)`, unless it is None. An exception of it ends the call. `progress` outlives the call.
  std::function<void(int64_t)> Progress(nb::handle progress);

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
      RaiseIfAsked();
      throw;
    }
  }

 private:
  void RunQueued(const std::function<void()>& work);
  bool IsAsked();
  void Keep(nb::python_error& error);
  void RaiseIfAsked();
  /// Hands remarks on to qkv._notes. Throws what Python's filters of warnings make an error.
  void Tell();
  void End() {
    RaiseIfAsked();
    Tell();
  }

  const int threads_;
  const std::thread::id caller_ = std::this_thread::get_id();
  std::chrono::steady_clock::time_point asked_at_ = std::chrono::steady_clock::now();  // of the caller alone
  std::atomic<bool> asked_{false};
  std::mutex mutex_;
  std::optional<nb::python_error> error_;  // what ends the call
  std::vector<std::string> notes_;
};

}  // namespace qkv::python
