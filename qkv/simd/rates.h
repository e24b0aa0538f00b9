// What this machine can do at most, measured: the measure of every other speed.
#pragma once

#include <chrono>
#include <cstdint>

namespace qkv::simd {

struct Rates {
  double flops = 0;  // multiply-adds of float on registers alone, counted twice, a second on all threads
  double bytes = 0;  // read from memory, a second on all threads
};

/// Measures both for about 100 ms, and returns the best of several tries.
Rates MeasureRates();

namespace internal {

/// How long f takes.
template <class F>
double Seconds(F&& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Float operations a second on the registers of all threads, now. Each does twelve chains of `rounds`, in pieces that
/// they share as they share a product's: a thread that is held up then counts as it does there.
double FlopsNow(int64_t rounds);
/// The sum of x [n], 64-byte aligned; n a multiple of 128.
float SumOf(const float* x, int64_t n);

}  // namespace internal
}  // namespace qkv::simd
