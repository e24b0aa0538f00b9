// How far apart the elements of two tensors are.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "qkv/core/tensor.h"

namespace qkv {

/// Greatest |a − b|; infinity when one is NaN.
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

}  // namespace qkv
