// Each ancestor against its own definition, and each against the next: one thing changes, the rest is equal.
#include "qkv/lab/claims/associative_memory.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include "qkv/attention/attention.h"
#include "tests/support/sampler.h"
#include "tests/support/tolerance.h"

namespace qkv::lab {
namespace {

template <typename T>
class AncestorsTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(AncestorsTest, Types);

constexpr int64_t kQueries = 23, kKeys = 37, kWidth = 6, kValueWidth = 5;

template <typename T>
struct Inputs {
  explicit Inputs(uint64_t seed = 1) {
    Sampler sampler(seed);
    q = sampler.Normal<T>({kQueries, kWidth}), k = sampler.Normal<T>({kKeys, kWidth});
    v = sampler.Normal<T>({kKeys, kValueWidth});
  }
  // The weights, [kQueries, kKeys]. The answers are checked against them.
  Tensor<T> Ask(const Memory<T>& memory) const {
    Tensor<T> out({kQueries, kValueWidth}), weights({kQueries, kKeys});
    Recall<T>(memory, q, k, v, out, weights);
    for (int64_t i = 0; i < kQueries; ++i) {
      for (int64_t e = 0; e < kValueWidth; ++e) {
        double sum = 0, magnitude = 0;
        for (int64_t j = 0; j < kKeys; ++j) {
          const double term = static_cast<double>(weights[i * kKeys + j]) * v[j * kValueWidth + e];
          sum += term, magnitude += std::abs(term);
        }
        EXPECT_NEAR(out[i * kValueWidth + e], sum, DotTolerance<T>(kKeys, magnitude));
      }
    }
    return weights;
  }
  // Keys on a sphere of this radius.
  void NormaliseKeys(double radius) {
    for (int64_t j = 0; j < kKeys; ++j) {
      T* key = k.data() + j * kWidth;
      const double norm = std::sqrt(static_cast<double>(DotProduct(key, key, kWidth)));
      for (int64_t e = 0; e < kWidth; ++e) key[e] = static_cast<T>(key[e] * radius / norm);
    }
  }
  // The greatest similarity there is, by Cauchy and Schwarz also of its rounding.
  double Sharpest() const {
    double q_norm = 0, k_norm = 0;
    for (int64_t i = 0; i < kQueries; ++i) {
      q_norm = std::max<double>(q_norm, DotProduct(q.data() + i * kWidth, q.data() + i * kWidth, kWidth));
    }
    for (int64_t j = 0; j < kKeys; ++j) {
      k_norm = std::max<double>(k_norm, DotProduct(k.data() + j * kWidth, k.data() + j * kWidth, kWidth));
    }
    return q_norm + k_norm;  // ‖q − k‖² / 2 and q·k are both below this
  }
  Tensor<T> q, k, v;
};

// Of a softmax weight: the scores' rounding grows it on both sides of the quotient.
template <typename T>
double WeightTolerance(const Inputs<T>& in, double temperature) {
  return 2 * DotTolerance<T>(kWidth, 2 * in.Sharpest() / temperature) + DotTolerance<T>(kKeys, 1) +
         16 * UnitRoundoff<T>();
}

template <typename T>
double MaxDifference(const Tensor<T>& a, const Tensor<T>& b) {
  EXPECT_EQ(a.shape(), b.shape());
  double greatest = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    greatest = std::max(greatest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return greatest;
}

// --- Hard dictionary ---------------------------------------------------------------------------------------------

TYPED_TEST(AncestorsTest, TheHardDictionaryIsAMap) {
  using T = TypeParam;
  Rng rng(3);
  std::map<std::vector<T>, T> map;  // of small integers, so that some queries are there and some are not
  Tensor<T> q({40, 2}), k({20, 2}), v({20, 1}), out({40, 1}), weights({40, 20});
  for (int64_t j = 0; j < 20;) {
    const std::vector<T> key{static_cast<T>(rng.Next() % 6), static_cast<T>(rng.Next() % 6)};
    if (!map.emplace(key, static_cast<T>(j + 1)).second) continue;
    k[2 * j] = key[0], k[2 * j + 1] = key[1], v[j] = static_cast<T>(j + 1);
    ++j;
  }
  for (T& x : q.span()) x = static_cast<T>(rng.Next() % 6);
  Recall<T>(HardDictionary<T>(), q, k, v, out, weights);
  int found = 0;
  for (int64_t i = 0; i < 40; ++i) {
    const auto entry = map.find({q[2 * i], q[2 * i + 1]});
    EXPECT_EQ(out[i], entry == map.end() ? T(0) : entry->second);
    EXPECT_EQ(std::accumulate(weights.data() + i * 20, weights.data() + (i + 1) * 20, T(0)),
              entry == map.end() ? T(0) : T(1));
    found += entry != map.end();
  }
  EXPECT_GT(found, 5);
  EXPECT_LT(found, 35);
}

TYPED_TEST(AncestorsTest, EqualKeysAreAveraged) {
  using T = TypeParam;
  Tensor<T> q({1, 1}), k({4, 1}), v({4, 1}), out({1, 1});
  q[0] = 2, k[0] = k[3] = 2, k[1] = 1, v[0] = 10, v[1] = 100, v[3] = 20;
  for (const Memory<T>& memory : {HardDictionary<T>(), NearestKey<T>()}) {
    Recall<T>(memory, q, k, v, out);
    EXPECT_EQ(out[0], 15);
  }
}

// --- Nearest key: another similarity -----------------------------------------------------------------------------

TYPED_TEST(AncestorsTest, TheNearestKeyIsTheEqualOneWhereThereIsOne) {
  using T = TypeParam;
  Inputs<T> in;
  for (int64_t i = 0; i < kQueries; i += 2) std::copy_n(in.k.data() + i * kWidth, kWidth, in.q.data() + i * kWidth);
  const Tensor<T> hard = in.Ask(HardDictionary<T>()), nearest = in.Ask(NearestKey<T>());
  for (int64_t i = 0; i < kQueries; ++i) {
    // By a search of its own.
    int64_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (int64_t j = 0; j < kKeys; ++j) {
      double distance = 0;
      for (int64_t e = 0; e < kWidth; ++e) {
        distance += std::pow(static_cast<double>(in.q[i * kWidth + e]) - in.k[j * kWidth + e], 2);
      }
      if (distance < least) least = distance, best = j;
    }
    for (int64_t j = 0; j < kKeys; ++j) {
      EXPECT_EQ(nearest[i * kKeys + j], j == best);
      EXPECT_EQ(hard[i * kKeys + j], i % 2 == 0 && j == i);  // an odd query is in no dictionary
    }
  }
}

// --- Soft dictionary: a temperature ------------------------------------------------------------------------------

TYPED_TEST(AncestorsTest, ASoftDictionaryHardensAsItCools) {
  using T = TypeParam;
  const Inputs<T> in;
  const Tensor<T> nearest = in.Ask(NearestKey<T>());
  double least_gap = std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < kQueries; ++i) {
    std::vector<T> scores;
    for (int64_t j = 0; j < kKeys; ++j) {
      scores.push_back(Nearness(in.q.data() + i * kWidth, in.k.data() + j * kWidth, kWidth));
    }
    std::sort(scores.rbegin(), scores.rend());
    least_gap = std::min<double>(least_gap, scores[0] - scores[1]);
  }
  double last = 1;
  for (const double temperature : {1.0, 0.1, 0.01, 1e-3, 1e-5, 1e-30}) {
    const double difference = MaxDifference(in.Ask(SoftDictionary<T>(static_cast<T>(temperature))), nearest);
    EXPECT_LE(difference, last);
    // No other key has more than exp(−gap / τ) of the best one's weight.
    EXPECT_LE(difference, kKeys * std::exp(-least_gap / temperature) + 4 * UnitRoundoff<T>());
    last = difference;
  }
  EXPECT_EQ(last, 0);
}

TYPED_TEST(AncestorsTest, AHotDictionaryAnswersTheMean) {
  using T = TypeParam;
  const Inputs<T> in;
  const Tensor<T> weights = in.Ask(SoftDictionary(T(1e12)));
  for (const T w : weights.span()) {
    EXPECT_NEAR(w, 1.0 / kKeys, in.Sharpest() / 1e12 + 4 * UnitRoundoff<T>());
  }
}

TYPED_TEST(AncestorsTest, TiesShareInTheLimitAndBeforeIt) {
  using T = TypeParam;
  Tensor<T> q({1, 1}), k({3, 1}), v({3, 1}), out({1, 1});
  k[0] = -1, k[1] = 1, k[2] = 3, v[0] = 4, v[1] = 8, v[2] = 1000;
  for (const T temperature : {T(0), T(1e-3), T(1e-30)}) {
    Recall<T>(SoftDictionary(temperature), q, k, v, out);
    EXPECT_EQ(out[0], 6);
  }
}

// --- Gaussian smoothing: positions for queries and keys ----------------------------------------------------------

// Σ_j exp(−‖i − j‖² / 2h²) x_j / Σ_j exp(−‖i − j‖² / 2h²) on an image, by its formula; a sequence has one row.
Tensor<double> SmoothByDefinition(const Tensor<double>& image, double h) {
  const int64_t H = image.dim(0), W = image.dim(1), C = image.dim(2);
  Tensor<double> out({H, W, C});
  for (int64_t y = 0; y < H; ++y) {
    for (int64_t x = 0; x < W; ++x) {
      double total = 0;
      for (int64_t i = 0; i < H * W; ++i) {
        const double dy = static_cast<double>(i / W - y), dx = static_cast<double>(i % W - x);
        const double weight = std::exp(-(dy * dy + dx * dx) / (2 * h * h));
        total += weight;
        for (int64_t c = 0; c < C; ++c) *out.view().at(y, x, c) += weight * image[i * C + c];
      }
      for (int64_t c = 0; c < C; ++c) *out.view().at(y, x, c) /= total;
    }
  }
  return out;
}

TYPED_TEST(AncestorsTest, GaussianSmoothingByItsDefinition) {
  using T = TypeParam;
  for (const Shape& shape : {Shape{1, 30, 2}, {6, 9, 3}, {1, 1, 1}}) {
    for (const double h : {0.3, 1.0, 4.0}) {
      const auto values = Sampler(5).Normal<T>(shape);
      const Tensor<double> exact = SmoothByDefinition(Cast<double>(values), h);
      Tensor<T> out(shape);
      GaussianSmooth<T>(values, static_cast<T>(h), out);
      // The farthest weights, exp(−d²/2h²), carry an error of their exponent, and next to no weight.
      const double tolerance = 5 * (DotTolerance<T>(shape.size(), 1) + 32 * UnitRoundoff<T>());
      EXPECT_LE(MaxDifference(Cast<double>(out), exact), tolerance);
      if (shape[0] == 1) {
        Tensor<T> sequence(shape);
        GaussianSmooth<T>(values.view()[0], static_cast<T>(h), sequence.view()[0]);
        EXPECT_EQ(MaxDifference(sequence, out), 0);
      }
    }
  }
}

// Along one axis after the other, as image libraries do it: the Gaussian is a product, and so is its sum.
TYPED_TEST(AncestorsTest, SmoothingAnImageIsSmoothingItsRowsThenItsColumns) {
  using T = TypeParam;
  const int64_t H = 7, W = 10;
  const auto image = Sampler(6).Normal<T>({H, W, 1});
  Tensor<T> whole({H, W, 1}), rows({H, W}), turned({W, H}), columns({W, H});
  GaussianSmooth<T>(image, T(1.5), whole);
  const auto smooth_lines = [](const Tensor<T>& lines, Tensor<T>& out) {
    const int64_t N = lines.dim(1);
    for (int64_t i = 0; i < lines.dim(0); ++i) {
      GaussianSmooth<T>(View<const T>(lines.data() + i * N, {N, 1}), T(1.5), View<T>(out.data() + i * N, {N, 1}));
    }
  };
  Tensor<T> flat({H, W});
  std::copy_n(image.data(), H * W, flat.data());
  smooth_lines(flat, rows);
  for (int64_t i = 0; i < H * W; ++i) turned[i % W * H + i / W] = rows[i];
  smooth_lines(turned, columns);
  for (int64_t i = 0; i < H * W; ++i) {
    EXPECT_NEAR(whole[i], columns[i % W * H + i / W], 5 * (DotTolerance<T>(H * W, 1) + 32 * UnitRoundoff<T>()));
  }
}

// Weights depend on the distance alone, whatever the values are.
TYPED_TEST(AncestorsTest, SmoothingsWeightsAreFixed) {
  using T = TypeParam;
  const Tensor<T> positions = GridPositions<T>(Shape{12});
  Tensor<T> weights({12, 12}), out({12, 1});
  const auto values = Sampler(7).Normal<T>({12, 1});
  Recall<T>(SoftDictionary(T(4)), positions, positions, values, out, weights);
  for (int64_t i = 0; i < 12; ++i) {
    for (int64_t j = 0; j < 12; ++j) {
      const double distance = static_cast<double>(i - j);
      EXPECT_NEAR(weights[i * 12 + j] / weights[i * 12 + i], std::exp(-distance * distance / 8),
                  16 * UnitRoundoff<T>());
    }
  }
  Tensor<T> smoothed({12, 1});
  GaussianSmooth<T>(values, T(2), smoothed);
  EXPECT_EQ(MaxDifference(smoothed, out), 0);
}

// --- Scaled dot-product: another similarity, again ---------------------------------------------------------------

TYPED_TEST(AncestorsTest, DotProductsAreNearnessWhereKeysHaveOneNorm) {
  using T = TypeParam;
  Inputs<T> in;
  const auto temperature = std::sqrt(static_cast<T>(kWidth));
  in.NormaliseKeys(2);
  EXPECT_LE(MaxDifference(in.Ask(ScaledDotProduct<T>(kWidth)), in.Ask(SoftDictionary(temperature))),
            WeightTolerance(in, temperature));
  // Not at another bandwidth,
  EXPECT_GT(MaxDifference(in.Ask(ScaledDotProduct<T>(kWidth)), in.Ask(SoftDictionary(T(1.5) * temperature))), 0.01);
  // and not where one key is longer.
  in.k[0] *= 4;
  EXPECT_GT(MaxDifference(in.Ask(ScaledDotProduct<T>(kWidth)), in.Ask(SoftDictionary(temperature))), 0.01);
}

TYPED_TEST(AncestorsTest, OtherwiseAttentionWeighsKeysByTheirNormsBesides) {
  using T = TypeParam;
  const Inputs<T> in;
  const double temperature = std::sqrt(static_cast<double>(kWidth));
  const Tensor<T> attention = in.Ask(ScaledDotProduct<T>(kWidth)),
                  soft = in.Ask(SoftDictionary(static_cast<T>(temperature)));
  for (int64_t i = 0; i < kQueries; ++i) {
    std::vector<double> weighed;
    for (int64_t j = 0; j < kKeys; ++j) {
      const T* key = in.k.data() + j * kWidth;
      weighed.push_back(soft[i * kKeys + j] *
                        std::exp(static_cast<double>(DotProduct(key, key, kWidth)) / (2 * temperature)));
    }
    const double sum = std::accumulate(weighed.begin(), weighed.end(), 0.0);
    for (int64_t j = 0; j < kKeys; ++j) {
      // The weights' error is relative: each is off by no more than its exponent is.
      EXPECT_NEAR(attention[i * kKeys + j], weighed[static_cast<size_t>(j)] / sum,
                  3 * WeightTolerance(in, temperature));
    }
  }
}

TYPED_TEST(AncestorsTest, ScaledDotProductIsTheFusedAttention) {
  using T = TypeParam;
  const Inputs<T> in;
  Tensor<T> recalled({kQueries, kValueWidth}), fused({1, 1, kQueries, kValueWidth});
  Recall<T>(ScaledDotProduct<T>(kWidth), in.q, in.k, in.v, recalled);
  const auto whole = [](const Tensor<T>& m) { return m.view().reshape({1, 1, m.dim(0), m.dim(1)}); };
  Arena arena;
  attention::Attention<T>(whole(in.q), whole(in.k), whole(in.v), {}, fused, arena);
  for (int64_t i = 0; i < fused.size(); ++i) {
    EXPECT_NEAR(recalled[i], fused[i], 4 * WeightTolerance(in, std::sqrt(static_cast<double>(kWidth))));
  }
}

// --- Multi-head: slices of the features --------------------------------------------------------------------------

TYPED_TEST(AncestorsTest, OneHeadIsNoChange) {
  using T = TypeParam;
  const Inputs<T> in;
  Tensor<T> heads({kQueries, kValueWidth}), one({kQueries, kValueWidth});
  RecallHeads<T>(ScaledDotProduct<T>(kWidth), 1, in.q, in.k, in.v, heads);
  Recall<T>(ScaledDotProduct<T>(kWidth), in.q, in.k, in.v, one);
  EXPECT_EQ(MaxDifference(heads, one), 0);
}

TYPED_TEST(AncestorsTest, HeadsAreTheFusedAttentionsHeads) {
  using T = TypeParam;
  const int64_t H = 3, E = 4, N = 20;
  Sampler sampler(8);
  const auto q = sampler.Normal<T>({N, H * E}), k = sampler.Normal<T>({N, H * E}), v = sampler.Normal<T>({N, H * E});
  Tensor<T> recalled({N, H * E}), fused({N, H * E});
  RecallHeads<T>(ScaledDotProduct<T>(E), H, q, k, v, recalled);
  const auto by_heads = [&]<typename U>(View<U> m) {
    return View<U>(m.data(), Shape{1, H, N, E}, {N * H * E, E, H * E, 1});
  };
  Arena arena;
  attention::Attention<T>(by_heads(q.view()), by_heads(k.view()), by_heads(v.view()), {}, by_heads(fused.view()),
                          arena);
  double sharpest = 0;
  for (const Tensor<T>* m : {&q, &k}) {
    for (int64_t i = 0; i < N * H; ++i) {
      sharpest = std::max<double>(sharpest, DotProduct(m->data() + i * E, m->data() + i * E, E));
    }
  }
  const double tolerance =
      4 * (2 * DotTolerance<T>(E, 2 * sharpest / 2) + DotTolerance<T>(N, 1) + 16 * UnitRoundoff<T>());
  EXPECT_LE(MaxDifference(recalled, fused), tolerance);
}

// --- Edges -------------------------------------------------------------------------------------------------------

TYPED_TEST(AncestorsTest, NaNSpreadsOverItsRow) {
  using T = TypeParam;
  Tensor<T> q({2, 1}), k({3, 1}), v({3, 1}), out({2, 1});
  q[1] = std::numeric_limits<T>::quiet_NaN();
  v[0] = 1;
  for (const Memory<T>& memory : {NearestKey<T>(), SoftDictionary(T(1)), ScaledDotProduct<T>(1)}) {
    Recall<T>(memory, q, k, v, out);
    EXPECT_NEAR(out[0], 1.0 / 3, UnitRoundoff<T>());
    EXPECT_TRUE(std::isnan(out[1]));
  }
}

TEST(Ancestors, WrongShapesAreRefused) {
  Tensor<float> q({2, 3}), k({4, 3}), v({4, 5}), out({2, 5}), weights({2, 4}), other({3, 3});
  const Memory<float> memory = SoftDictionary(1.f);
  EXPECT_NO_THROW(Recall<float>(memory, q, k, v, out, weights));
  EXPECT_THROW(Recall<float>(memory, q, v, v, out), Error);
  EXPECT_THROW(Recall<float>(memory, q, k, q, out), Error);
  EXPECT_THROW(Recall<float>(memory, q, k, v, other), Error);
  EXPECT_THROW(Recall<float>(memory, q, k, v, out, other), Error);
  EXPECT_THROW(Recall<float>(SoftDictionary(-1.f), q, k, v, out), Error);
  EXPECT_THROW(RecallHeads<float>(memory, 2, q, k, v, out), Error);
  EXPECT_THROW(GaussianSmooth<float>(q, 0.f, q), Error);
  EXPECT_THROW(GaussianSmooth<float>(q, 1.f, k), Error);
}

}  // namespace
}  // namespace qkv::lab
