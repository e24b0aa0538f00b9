// The hot loop of rotary positions on raw pointers: rotates pairs of features by angles with given cosines and sines.
// nn/rotary.h defines the angles.
#pragma once

#include <cstdint>

namespace qkv::simd {

/// Rows of several heads of E features each.
template <typename T>
struct PairRotation {
  const T* x;  // [rows, heads·E], rows x_stride apart
  int64_t x_stride;
  const T* table;  // per row [2, E], dense: c, then s; for each pair c is the cosine twice, s is −sine and sine
  int64_t rows, heads, E;  // E is even
  T* y;                    // as x; may be x
  int64_t y_stride;
};

/// y[e] = c[e] · x[e] + s[e] · x[e ^ 1], which rotates features 2i and 2i + 1 by their angle; `back`: by minus the
/// angle.
template <typename T>
void RotatePairs(const PairRotation<T>& task, bool back);

}  // namespace qkv::simd
