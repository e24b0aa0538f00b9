// What this machine can do at most, measured: the measure of every other speed.
#pragma once

#include <cstdint>

namespace qkv::simd {

struct Rates {
  double flops = 0;  // multiply-adds of float on registers alone, counted twice, a second on all threads
  double bytes = 0;  // read from memory, a second on all threads
};

/// Measures both for about 100 ms, and returns the best of several tries.
Rates MeasureRates();

namespace internal {

/// Twelve chains of `rounds` multiply-adds on the calling thread's registers; returns the operations, each counted
/// twice. *sink keeps them from being removed.
double ChainMultiplyAdds(int64_t rounds, float* sink);
/// Float operations a second on the registers of all threads, now. Each does `rounds`, in pieces that they share as
/// they share a product's: a thread that is held up then counts as it does there.
double FlopsNow(int64_t rounds);
/// The sum of x [n], 64-byte aligned; n a multiple of 128.
float SumOf(const float* x, int64_t n);

}  // namespace internal
}  // namespace qkv::simd
