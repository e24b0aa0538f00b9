// Times contestants in turns, so that load by other programs affects all of them alike.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace qkv {

struct Times {
  std::vector<double> milliseconds;  // sorted

  double best() const { return milliseconds.front(); }
  double median() const { return milliseconds[milliseconds.size() / 2]; }
};

inline double MillisecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

/// Runs the contestants in turns for so many seconds, at least five rounds, so that load by other programs affects all.
/// A first round does not count. run(i) runs contestant i.
template <typename F>
std::vector<Times> Interleave(size_t contestants, double seconds, F&& run) {
  std::vector<Times> times(contestants);
  for (size_t i = 0; i < contestants; ++i) run(i);
  const auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < 5 || MillisecondsSince(start) < 1e3 * seconds; ++round) {
    for (size_t i = 0; i < contestants; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      run(i);
      times[i].milliseconds.push_back(MillisecondsSince(begin));
    }
  }
  for (Times& t : times) std::sort(t.milliseconds.begin(), t.milliseconds.end());
  return times;
}

}  // namespace qkv
