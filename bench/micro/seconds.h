// How long something takes, for benchmarks that let two things take turns within one iteration.
#pragma once

#include <chrono>

namespace qkv::simd {

template <class F>
double Seconds(F&& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace qkv::simd
