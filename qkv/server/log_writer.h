// Log lines, written on a thread of their own: a slow reader stops no request.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "qkv/io/json.h"

namespace qkv::server {

class LogWriter {
 public:
  /// `write` is called with one line after the other; empty: nothing is written.
  explicit LogWriter(std::function<void(const io::Json&)> write);
  /// Writes all waiting lines.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  /// Callable from any thread; never waits. While 10,000 lines wait, further ones are dropped, and a line says how
  /// many: {"level": "warning", "event": "dropped", "lines"}.
  void Write(io::Json line);
  /// Waits until all earlier lines are written; false if that takes longer than `limit`.
  bool Flush(std::chrono::milliseconds limit);

 private:
  void Work();

  const std::function<void(const io::Json&)> write_;
  std::mutex mutex_;
  std::condition_variable changed_, written_;
  std::deque<io::Json> lines_;
  int64_t dropped_ = 0;
  bool writing_ = false, stopped_ = false;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace qkv::server
