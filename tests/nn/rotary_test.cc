// Rotary positions against the paper's formula, written out, and against timm and transformers; and what they are for:
// scores that depend on distances.
#include "qkv/nn/rotary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <numeric>
#include <span>
#include <vector>

#include "tests/nn/rotary_golden.h"
#include "tests/support/sampler.h"
#include "tests/support/tolerance.h"

namespace qkv::nn {
namespace {

constexpr int64_t kLength = 9, kE = 6;

// Pair i of the token at place p, as a complex number, times e^(i p θ_i), θ_i = 10000^(−2i/E) (RoFormer, eq. 15).
std::complex<double> Rotated(double first, double second, int64_t p, int64_t pair, double base = 10'000) {
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
  RotateRows<T>(x, kN, table, kFirst, RotaryDirection::kForward, y);
  RotateRows<T>(y, kN, table, kFirst, RotaryDirection::kInverse, again);
  for (int64_t row = 0; row < kB * kN; ++row) {
    for (int64_t i = 0; i < kWidth; i += 2) {
      const T *from = x.view().at(row, i), *to = y.view().at(row, i), *back = again.view().at(row, i);
      const auto exact = Rotated(from[0], from[1], kFirst + row % kN, i % kE / 2, 100);
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
  RotateRows<T>(x.view().reshape({kB * kN, kH * kE}), kN, table, kFirst, RotaryDirection::kForward, rows);
  const auto by_head = [](auto view) {
    return decltype(view)(view.data(), {kB, kH, kN, kE}, {kN * kH * kE, kE, kH * kE, 1});
  };
  RotateHeads<T>(by_head(x.view()), table, kFirst, by_head(heads.view()));
  for (int64_t i = 0; i < rows.size(); ++i) ASSERT_EQ(heads[i], rows[i]);
}

TEST(RotaryScores, DependOnDistancesAlone) {
  const RotaryTable table(kLength, kE);
  const auto pair = Sampler(3).Normal<double>({2, kE});
  const auto score = [&](int64_t query, int64_t key) {
    Tensor<double> turned(pair.shape());
    RotateRows<double>(pair.view().slice(0, 0, 1), 1, table, query, RotaryDirection::kForward,
                       turned.view().slice(0, 0, 1));
    RotateRows<double>(pair.view().slice(0, 1, 2), 1, table, key, RotaryDirection::kForward,
                       turned.view().slice(0, 1, 2));
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

// Axis after axis, pairs turn by a coordinate times a frequency; a token at 0 keeps its bits.
TYPED_TEST(Rotary, PairsTurnByTheCoordinateOfTheirAxis) {
  using T = TypeParam;
  constexpr int64_t kTokens = 5, kAxes = 3, kPairs = 2, kWidth = 2 * kAxes * kPairs;
  RotaryAngles angles{Sampler(4).Normal<double>({kTokens, kAxes}), Sampler(5).Normal<double>({kAxes, kPairs})};
  for (int64_t a = 0; a < kAxes; ++a) angles.coordinates[a] = 0;
  const RotaryTable table(angles);
  ASSERT_EQ(table.length(), kTokens);
  ASSERT_EQ(table.width(), kWidth);
  const auto x = Cast<T>(Sampler(6).Normal<double>({kTokens, kWidth}));
  Tensor<T> y(x.shape());
  RotateRows<T>(x, kTokens, table, 0, RotaryDirection::kForward, y);
  for (int64_t e = 0; e < kWidth; ++e) ASSERT_EQ(y[e], x[e]);
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t pair = 0; pair < kWidth / 2; ++pair) {
      const T *from = x.view().at(t, 2 * pair), *to = y.view().at(t, 2 * pair);
      const double angle = angles.coordinates[t * kAxes + pair / kPairs] * angles.frequencies[pair];
      const auto exact = std::complex<double>(from[0], from[1]) * std::polar(1.0, angle);
      const double tolerance = 8 * UnitRoundoff<T>() * std::hypot(from[0], from[1]);
      ASSERT_NEAR(to[0], exact.real(), tolerance);
      ASSERT_NEAR(to[1], exact.imag(), tolerance);
    }
  }
}

// Mixed angles sum over the axes, and each head has its own.
TYPED_TEST(Rotary, MixedPairsTurnByASumOfTheAxes) {
  using T = TypeParam;
  constexpr int64_t kB = 2, kTokens = 5, kHeads = 3, kPairs = 4, kWidth = 2 * kPairs;
  MixedAngles angles{Sampler(4).Normal<double>({kTokens, 2}), Sampler(5).Normal<double>({2, kHeads, kPairs})};
  const RotaryTable table(angles);
  ASSERT_EQ(table.heads(), kHeads);
  ASSERT_EQ(table.length(), kTokens);
  ASSERT_EQ(table.width(), kWidth);
  const auto x = Cast<T>(Sampler(6).Normal<double>({kB, kHeads, kTokens, kWidth}));
  Tensor<T> y(x.shape());
  RotateHeads<T>(x, table, 0, y);
  for (int64_t head = 0; head < kB * kHeads; ++head) {
    const int64_t b = head / kHeads, h = head % kHeads;
    for (int64_t t = 0; t < kTokens; ++t) {
      for (int64_t pair = 0; pair < kPairs; ++pair) {
        const T *from = x.view().at(b, h, t, 2 * pair), *to = y.view().at(b, h, t, 2 * pair);
        const double angle = angles.coordinates[2 * t] * *angles.frequencies.view().at(0, h, pair) +
                             angles.coordinates[2 * t + 1] * *angles.frequencies.view().at(1, h, pair);
        const auto exact = std::complex<double>(from[0], from[1]) * std::polar(1.0, angle);
        const double tolerance = 8 * UnitRoundoff<T>() * std::hypot(from[0], from[1]);
        ASSERT_NEAR(to[0], exact.real(), tolerance);
        ASSERT_NEAR(to[1], exact.imag(), tolerance);
      }
    }
  }
  Tensor<T> rows({kTokens, kHeads * kWidth});
  EXPECT_THROW(RotateRows<T>(rows, kTokens, table, 0, RotaryDirection::kForward, rows), Error);
  EXPECT_THROW(RotateHeads<T>(x.view().slice(1, 0, 2), table, 0, y.view().slice(1, 0, 2)), Error);
}

TEST(RotaryAngles, OfPatches) {
  const TokenGrid grid{.prefix = 2, .height = 3, .width = 4};
  constexpr int64_t kWidth = 12, kPairs = 3;
  const auto plain = PatchAngles(grid, kWidth);
  const auto scaled = PatchAngles(grid, kWidth, {.base = 100, .offset = 1, .trained_height = 6, .trained_width = 2});
  const auto columns = PatchAngles(grid, kWidth, {.columns_first = true});
  const auto normalised = NormalisedAngles(grid, kWidth);
  for (const auto* angles : {&plain, &scaled, &columns, &normalised}) {
    ASSERT_EQ(angles->coordinates.shape(), Shape({14, 2}));
    ASSERT_EQ(angles->frequencies.shape(), Shape({2, kPairs}));
    for (int64_t i = 0; i < 2 * grid.prefix; ++i) ASSERT_EQ(angles->coordinates[i], 0);
  }
  for (int64_t t = 0; t < 12; ++t) {
    const double row = static_cast<double>(t / 4), column = static_cast<double>(t % 4);
    const auto expect = [&](const RotaryAngles& angles, double first, double second) {
      EXPECT_DOUBLE_EQ(angles.coordinates[2 * (2 + t)], first) << t;
      EXPECT_DOUBLE_EQ(angles.coordinates[2 * (2 + t) + 1], second) << t;
    };
    expect(plain, row, column);
    expect(scaled, 2 * (row + 1), (column + 1) / 2);
    expect(columns, column, row);
    expect(normalised, 2 * (row + .5) / 3 - 1, 2 * (column + .5) / 4 - 1);
  }
  for (int64_t i = 0; i < 2 * kPairs; ++i) {
    const double exponent = -static_cast<double>(i % kPairs) / kPairs;
    EXPECT_DOUBLE_EQ(plain.frequencies[i], std::pow(1e4, exponent));
    EXPECT_DOUBLE_EQ(scaled.frequencies[i], std::pow(100, exponent));
    EXPECT_DOUBLE_EQ(normalised.frequencies[i], 2 * std::numbers::pi * std::pow(100, exponent));
  }
}

// Features of a model with half-split pairs, reordered, turn as that model turns them; so scores are the same sums in
// another order.
TEST(RotaryLayout, HalfSplitPairsBecomeNeighbours) {
  constexpr int64_t kWidth = 12, kHalf = kWidth / 2, kTokens = 7;
  const std::vector<int64_t> from = HalfSplitToNeighbours(kWidth);
  std::vector<int64_t> sorted(from), all(kWidth);
  std::sort(sorted.begin(), sorted.end());
  std::iota(all.begin(), all.end(), 0);
  ASSERT_EQ(sorted, all);
  const RotaryTable table(kTokens, kWidth);
  const auto x = Sampler(8).Normal<double>({kTokens, kWidth});
  Tensor<double> reordered(x.shape()), y(x.shape());
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t f = 0; f < kWidth; ++f) reordered[t * kWidth + f] = x[t * kWidth + from[f]];
  }
  RotateRows<double>(reordered, kTokens, table, 0, RotaryDirection::kForward, y);
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t i = 0; i < kHalf; ++i) {
      const double cosine = table.table<double>().at(t, 0)[2 * i], sine = table.table<double>().at(t, 1)[2 * i + 1];
      const double a = x[t * kWidth + i], b = x[t * kWidth + kHalf + i];
      // The kernel's roundings: one product, then fused additions or products of their own.
      const double tolerance = 2 * UnitRoundoff<double>() * (std::abs(a) + std::abs(b));
      EXPECT_NEAR(y[t * kWidth + 2 * i], a * cosine - b * sine, tolerance);
      EXPECT_NEAR(y[t * kWidth + 2 * i + 1], b * cosine + a * sine, tolerance);
      EXPECT_EQ(from[2 * i], i);
      EXPECT_EQ(from[2 * i + 1], kHalf + i);
    }
  }
  EXPECT_THROW(HalfSplitToNeighbours(5), Error);
}

// Scores of the originals' turned queries and keys (tests/nn/generate_rotary_golden.py). They compute angles in float:
// coordinates, frequencies and their product round six times at most, sines and cosines once.
void CheckScores(const RotaryAngles& angles, bool half_split, std::span<const double> golden) {
  constexpr int64_t kTokens = 7, kWidth = 8;
  const RotaryTable table(angles);
  ASSERT_EQ(table.length(), kTokens);
  ASSERT_EQ(table.width(), kWidth);
  std::vector<int64_t> from(kWidth);
  std::iota(from.begin(), from.end(), 0);
  if (half_split) from = HalfSplitToNeighbours(kWidth);
  Tensor<double> q({kTokens, kWidth}), k({kTokens, kWidth});
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t f = 0; f < kWidth; ++f) {
      const auto n = static_cast<double>(t * kWidth + from[f]);
      q[t * kWidth + f] = std::sin(1 + n), k[t * kWidth + f] = std::cos(2 + n);
    }
  }
  RotateRows<double>(q, kTokens, table, 0, RotaryDirection::kForward, q);
  RotateRows<double>(k, kTokens, table, 0, RotaryDirection::kForward, k);
  double greatest = 0;
  for (const double x : angles.coordinates.span()) greatest = std::max(greatest, std::abs(x) * angles.frequencies[0]);
  const double of_pair = UnitRoundoff<float>() * (2 * 6 * greatest + 4);  // of a turned query and key, each of length 1
  for (int64_t i = 0; i < kTokens; ++i) {
    for (int64_t j = 0; j < kTokens; ++j) {
      double score = 0, bound = 0;
      for (int64_t e = 0; e < kWidth; e += 2) {
        const double *a = q.view().at(i, e), *b = k.view().at(j, e);
        score += a[0] * b[0] + a[1] * b[1];
        bound += of_pair * std::hypot(a[0], a[1]) * std::hypot(b[0], b[1]);
      }
      ASSERT_NEAR(score, golden[static_cast<size_t>(i * kTokens + j)], bound) << i << ", " << j;
    }
  }
}

TEST(RotaryGolden, ScoresOfTheOriginals) {
  const TokenGrid grid{.prefix = 1, .height = 2, .width = 3};
  {
    SCOPED_TRACE("EVA-02");
    CheckScores(PatchAngles(grid, 8, {.trained_height = 4, .trained_width = 4}), false, golden::kEva);
  }
  {
    SCOPED_TRACE("Perception Encoder");
    CheckScores(PatchAngles(grid, 8, {.base = 100, .offset = 1, .columns_first = true}), false,
                golden::kPerceptionEncoder);
  }
  {
    SCOPED_TRACE("DINOv3");
    CheckScores(NormalisedAngles(grid, 8), true, golden::kDinov3);
  }
  // Pixtral: frequencies of one axis, dealt to rows and columns in turn.
  SCOPED_TRACE("Pixtral");
  RotaryAngles angles = PatchAngles(grid, 8);
  const auto dealt = SequenceAngles(1, 8).frequencies;
  for (int64_t i = 0; i < 4; ++i) angles.frequencies[i % 2 * 2 + i / 2] = dealt[i];
  CheckScores(angles, true, golden::kPixtral);
}

TEST(RotaryErrors, SayWhatDoesNotFit) {
  EXPECT_THROW(RotaryTable(kLength, 5), Error);
  EXPECT_THROW(RotaryTable(kLength, 6, 0), Error);
  EXPECT_THROW(RotaryTable(0, 6), Error);
  const TokenGrid grid{.prefix = 1, .height = 2, .width = 3};
  EXPECT_THROW(PatchAngles(grid, 6), Error);
  EXPECT_THROW(NormalisedAngles(grid, 8, -1), Error);
  EXPECT_THROW(PatchAngles({.prefix = 1}, 8), Error);
  EXPECT_THROW(RotaryTable(RotaryAngles{Tensor<double>({3, 2}), Tensor<double>({1, 4})}), Error);
  const RotaryTable table(kLength, kE);
  Tensor<double> x({2, kE}), wide({2, kE + 2});
  EXPECT_NO_THROW(RotateRows<double>(x, 2, table, kLength - 2, RotaryDirection::kForward, x));
  EXPECT_THROW(RotateRows<double>(x, 2, table, kLength - 1, RotaryDirection::kForward, x), Error);
  EXPECT_THROW(RotateRows<double>(wide, 2, table, 0, RotaryDirection::kForward, wide), Error);
  EXPECT_THROW(RotateRows<double>(x, 2, table, -1, RotaryDirection::kForward, x), Error);
}

}  // namespace
}  // namespace qkv::nn
