// The greatest entry of a row, and the logarithm of the sum of its exponentials: what turns scores to
// log-probabilities.
#pragma once

#include <cstdint>

namespace qkv::simd {

/// The greatest of n entries without NaN; −infinity if there are none.
float RowMax(const float* x, int64_t n);

/// log Σ exp(x[i]) of n entries below +infinity, without NaN; −infinity if there are none, or if all are −infinity. The
/// exponentials are float, their sum is double, so that rows of 100,000 entries lose nothing.
float LogSumExp(const float* x, int64_t n);

}  // namespace qkv::simd
