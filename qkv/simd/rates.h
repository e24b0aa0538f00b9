// Measured peak rates of this machine, to which other speeds are compared.
#pragma once

#include <chrono>
#include <cstdint>

namespace qkv::simd {

struct Rates {
  double flops = 0;  // float operations (two per multiply-add) per second on registers, all threads
  double bytes = 0;  // read from memory per second, all threads
};

/// Measures both for about 100 ms, and returns the best of several tries.
Rates MeasureRates();

namespace internal {

/// Seconds that f takes.
template <class F>
double Seconds(F&& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Float operations per second on the registers of all threads, now. Each runs twelve chains of `rounds`, in pieces
/// that the threads share like those of a product, so that a delayed thread counts as it does there.
double FlopsNow(int64_t rounds);
/// The sum of x [n], 64-byte aligned; n a multiple of 128.
float SumElements(const float* x, int64_t n);

}  // namespace internal
}  // namespace qkv::simd
