// Checks gradients against finite differences.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "qkv/core/tensor.h"

namespace qkv {

/// Compares `gradient` with finite differences of loss() with respect to each entry of x, which loss() reads; both
/// dense. Fourth-order central differences have an error of h⁴/30 times the fifth derivative (2e-15 of it), plus 1.5
/// roundings of the loss over h (3e-13 of it): far below the bound for a loss of some hundred terms of order one, while
/// a missing or extra term of the gradient is far above it.
inline void ExpectGradient(const std::function<double()>& loss, View<double> x, View<const double> gradient,
                           const std::string& name) {
  constexpr double kStep = 0x1p-11, kTolerance = 1e-8;
  ASSERT_TRUE(x.dense() && gradient.dense() && x.size() == gradient.size()) << name;
  double scale = 1;
  for (int64_t i = 0; i < x.size(); ++i) scale = std::max(scale, std::abs(gradient.data()[i]));
  for (int64_t i = 0; i < x.size(); ++i) {
    const double before = x.data()[i];
    const auto at = [&](double step) {
      x.data()[i] = before + step;
      return loss();
    };
    const double difference = (8 * (at(kStep) - at(-kStep)) - (at(2 * kStep) - at(-2 * kStep))) / (12 * kStep);
    x.data()[i] = before;
    ASSERT_NEAR(gradient.data()[i], difference, kTolerance * scale) << name << " at " << i;
  }
}

/// Σ weights · y of two dense views: a loss whose gradient with respect to y is `weights`.
inline double WeightedSum(View<const double> weights, View<const double> y) {
  double sum = 0;
  for (int64_t i = 0; i < y.size(); ++i) sum += weights.data()[i] * y.data()[i];
  return sum;
}

}  // namespace qkv
