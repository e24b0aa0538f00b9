// Rotary positions against the paper's formula, written out; and what they are for: scores that depend on distances.
#include "qkv/nn/rotary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "tests/support/sampler.h"
#include "tests/support/tolerance.h"

namespace qkv::nn {
namespace {

constexpr int64_t kLength = 9, kE = 6;

// Pair i of the token at place p, as a complex number, times e^(i p θ_i), θ_i = 10000^(−2i/E) (RoFormer, eq. 15).
std::complex<double> Turned(double first, double second, int64_t p, int64_t pair, double base = 10'000) {
  const double angle = static_cast<double>(p) * std::pow(base, -2.0 * static_cast<double>(pair) / kE);
  return std::complex<double>(first, second) * std::polar(1.0, angle);
}

template <typename T>
class Rotary : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Rotary, Types);

TYPED_TEST(Rotary, RowsAreTurnedByTheirPlaces) {
  using T = TypeParam;
  constexpr int64_t kB = 2, kN = 4, kH = 3, kFirst = 5, kWidth = kH * kE;
  const RotaryTable table(kLength, kE, 100);
  const auto x = Cast<T>(Sampler(1).Normal<double>({kB * kN, kWidth}));
  Tensor<T> y(x.shape()), again(x.shape());
  TurnRows<T>(x, kN, table, kFirst, Turn::kForward, y);
  TurnRows<T>(y, kN, table, kFirst, Turn::kBack, again);
  for (int64_t row = 0; row < kB * kN; ++row) {
    for (int64_t i = 0; i < kWidth; i += 2) {
      const T *from = x.view().at(row, i), *to = y.view().at(row, i), *back = again.view().at(row, i);
      const auto exact = Turned(from[0], from[1], kFirst + row % kN, i % kE / 2, 100);
      const double tolerance = 8 * UnitRoundoff<T>() * std::hypot(from[0], from[1]);
      ASSERT_NEAR(to[0], exact.real(), tolerance);
      ASSERT_NEAR(to[1], exact.imag(), tolerance);
      ASSERT_NEAR(back[0], from[0], 2 * tolerance);
      ASSERT_NEAR(back[1], from[1], 2 * tolerance);
    }
  }
}

TYPED_TEST(Rotary, HeadsAreTurnedAsRowsAre) {
  using T = TypeParam;
  constexpr int64_t kB = 2, kN = 7, kH = 3, kFirst = 2;
  const RotaryTable table(kLength, kE);
  const auto x = Cast<T>(Sampler(2).Normal<double>({kB, kN, kH, kE}));
  Tensor<T> rows({kB * kN, kH * kE}), heads(x.shape());
  TurnRows<T>(x.view().reshape({kB * kN, kH * kE}), kN, table, kFirst, Turn::kForward, rows);
  const auto by_head = [](auto view) {
    return decltype(view)(view.data(), {kB, kH, kN, kE}, {kN * kH * kE, kE, kH * kE, 1});
  };
  TurnHeads<T>(by_head(x.view()), table, kFirst, by_head(heads.view()));
  for (int64_t i = 0; i < rows.size(); ++i) ASSERT_EQ(heads[i], rows[i]);
}

TEST(RotaryScores, DependOnDistancesAlone) {
  const RotaryTable table(kLength, kE);
  const auto pair = Sampler(3).Normal<double>({2, kE});
  const auto score = [&](int64_t query, int64_t key) {
    Tensor<double> turned(pair.shape());
    TurnRows<double>(pair.view().slice(0, 0, 1), 1, table, query, Turn::kForward, turned.view().slice(0, 0, 1));
    TurnRows<double>(pair.view().slice(0, 1, 2), 1, table, key, Turn::kForward, turned.view().slice(0, 1, 2));
    double sum = 0;
    for (int64_t e = 0; e < kE; ++e) sum += turned[e] * turned[kE + e];
    return sum;
  };
  for (int64_t distance = 0; distance < 5; ++distance) {
    for (int64_t at = 0; at + distance < kLength; ++at) {
      ASSERT_NEAR(score(at + distance, at), score(distance, 0), 1e-14);
    }
  }
  EXPECT_GT(std::abs(score(3, 0) - score(0, 3)), 1e-3) << "the order of query and key does not count";
}

TEST(RotaryErrors, SayWhatDoesNotFit) {
  EXPECT_THROW(RotaryTable(kLength, 5), Error);
  EXPECT_THROW(RotaryTable(kLength, 6, 0), Error);
  EXPECT_THROW(RotaryTable(0, 6), Error);
  const RotaryTable table(kLength, kE);
  Tensor<double> x({2, kE}), wide({2, kE + 2});
  EXPECT_NO_THROW(TurnRows<double>(x, 2, table, kLength - 2, Turn::kForward, x));
  EXPECT_THROW(TurnRows<double>(x, 2, table, kLength - 1, Turn::kForward, x), Error);
  EXPECT_THROW(TurnRows<double>(wide, 2, table, 0, Turn::kForward, wide), Error);
  EXPECT_THROW(TurnRows<double>(x, 2, table, -1, Turn::kForward, x), Error);
}

}  // namespace
}  // namespace qkv::nn
