// The logarithm of the sum of exponentials of a row: what turns scores to log-probabilities.
#pragma once

#include <cstdint>

namespace qkv::simd {

/// log Σ exp(x[i]) of n entries below +infinity, without NaN; −infinity if there are none, or if all are −infinity. The
/// exponentials are float, their sum is double, so that rows of 100,000 entries lose nothing.
float LogSumExp(const float* x, int64_t n);

}  // namespace qkv::simd
