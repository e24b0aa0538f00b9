// Differences between tensors.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "qkv/core/tensor.h"

namespace qkv {

/// Greatest |a − b|; infinity if one is NaN.
template <typename A, typename B>
double MaxDifference(const Tensor<A>& a, const Tensor<B>& b) {
  EXPECT_EQ(a.shape(), b.shape());
  double greatest = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    greatest = std::isnan(difference) ? INFINITY : std::max(greatest, difference);
  }
  return greatest;
}

template <typename T>
double MaxAbs(const Tensor<T>& x) {
  double greatest = 0;
  for (const T v : x.span()) greatest = std::max(greatest, std::abs(static_cast<double>(v)));
  return greatest;
}

/// Cosine of the angle between row r of a and of b, both [rows, n].
inline double RowCosine(const Tensor<float>& a, const Tensor<float>& b, int64_t r) {
  EXPECT_EQ(a.shape(), b.shape());
  const float *x = a.view().row(r), *y = b.view().row(r);
  double xy = 0, xx = 0, yy = 0;
  for (int64_t i = 0; i < a.dim(1); ++i) xy += x[i] * y[i], xx += x[i] * x[i], yy += y[i] * y[i];
  return xy / std::sqrt(xx * yy);
}

}  // namespace qkv
