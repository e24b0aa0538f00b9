// A progress line on stderr if that is a terminal; nothing otherwise.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace qkv::cli {

class Progress {
 public:
  Progress(int64_t total, std::string unit, bool quiet);
  ~Progress();  // clears the line
  void Advance(int64_t count);
  /// Clears the line, so that other text can be written to the terminal.
  void Clear();
  /// Clears the line of the visible Progress, if there is one: before anything is printed to the same terminal.
  static void ClearShown();

 private:
  void Draw();

  using Clock = std::chrono::steady_clock;
  const int64_t total_;
  const std::string unit_;
  const bool shown_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point drawn_{};
  int64_t done_ = 0;
  bool visible_ = false;  // the line is on the terminal
};

}  // namespace qkv::cli
