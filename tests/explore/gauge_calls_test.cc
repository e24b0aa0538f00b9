// Gauges are far from the identity, continuous in their strength, and well conditioned.
#include "qkv/explore/gauge_calls.h"

#include <gtest/gtest.h>

#include <cmath>

#include "qkv/algebra/spectrum.h"
#include "qkv/core/error.h"
#include "tests/support/difference.h"

namespace qkv::explore {
namespace {

TEST(Gauge, StrengthZeroIsTheIdentity) {
  const Tensor<double> gauge = MakeGauge(8, 0, 3).query;
  for (int64_t i = 0; i < 8; ++i) {
    for (int64_t j = 0; j < 8; ++j) EXPECT_NEAR(gauge[i * 8 + j], i == j ? 1 : 0, 1e-15);
  }
}

TEST(Gauge, IsFarFromTheIdentityAndWellConditioned) {
  for (const int64_t E : {1, 2, 24, 64}) {
    const Tensor<double> gauge = MakeGauge(E, 1, 11).query;
    const auto values = algebra::SingularValues(gauge);
    EXPECT_LE(values.front() / values.back(), std::exp(3.0) * (1 + 1e-9)) << E;
    if (E < 24) continue;
    double off = 0;
    for (int64_t i = 0; i < E; ++i) {
      for (int64_t j = 0; j < E; ++j) off += i == j ? 0 : gauge[i * E + j] * gauge[i * E + j];
    }
    EXPECT_GT(std::sqrt(off / static_cast<double>(E)), 0.5) << E;
  }
}

TEST(Gauge, ChangesContinuously) {
  const Tensor<double> a = MakeGauge(16, 0.5, 2).query, b = MakeGauge(16, 0.501, 2).query;
  EXPECT_LT(MaxDifference(a, b), 0.02);
  EXPECT_GT(MaxDifference(a, MakeGauge(16, 0.5, 4).query), 0.1);
  EXPECT_EQ(MaxDifference(a, MakeGauge(16, 0.5, 2).query), 0);
}

// (q T)·(k T⁻ᵀ) = q·k
TEST(Gauge, MapsKeepEveryProduct) {
  const GaugeMaps maps = MakeGauge(12, 1, 9);
  for (int64_t i = 0; i < 12; ++i) {
    for (int64_t j = 0; j < 12; ++j) {
      double product = 0;
      for (int64_t e = 0; e < 12; ++e) product += maps.query[i * 12 + e] * maps.key[j * 12 + e];
      EXPECT_NEAR(product, i == j ? 1 : 0, 1e-12);
    }
  }
}

TEST(Gauge, RefusesOtherStrengths) {
  EXPECT_THROW(MakeGauge(4, -0.1, 0), Error);
  EXPECT_THROW(MakeGauge(4, 1.1, 0), Error);
  EXPECT_THROW(MakeGauge(4, NAN, 0), Error);
}

}  // namespace
}  // namespace qkv::explore
