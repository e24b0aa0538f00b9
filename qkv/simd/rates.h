// What this machine can do at most, measured: the measure of every other speed.
#pragma once

namespace qkv::simd {

struct Rates {
  double flops = 0;  // multiply-adds of float on registers alone, counted twice, a second on all threads
  double bytes = 0;  // read from memory, a second on all threads
};

/// Measures both for about 100 ms, and returns the best of several tries.
Rates MeasureRates();

}  // namespace qkv::simd
