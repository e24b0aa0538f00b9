// Masks, biases, causal order, soft cap, and infinite scores.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/attention/cases.h"
#include "tests/support/isas.h"

namespace qkv::attention {
namespace {

class OptionsTest : public IsaTest {};
QKV_FOR_ALL_ISAS(OptionsTest);

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// All options at once and each alone, with every way to broadcast.
template <typename T>
void CheckCombinations(const Sizes& s) {
  const Case<T> c(s);
  uint64_t seed = 10;
  for (const Causal causal : {Causal::kNone, Causal::kTopLeft, Causal::kBottomRight}) {
    for (const T soft_cap : {T{0}, T{2}}) {
      for (int bias_axes = -1; bias_axes < 8; ++bias_axes) {
        for (int mask_axes = -1; mask_axes < 8; mask_axes += 1 + (bias_axes + 8) % 3) {
          const auto shape = [&](int axes) {
            return Shape({axes & 1 ? s.B : 1, axes & 2 ? s.H : 1, axes & 4 ? s.N_q : 1, s.N_k});
          };
          ++seed;
          Tensor<T> bias;
          Tensor<bool> mask;
          Options<T> options{.causal = causal, .soft_cap = soft_cap};
          if (bias_axes >= 0) bias = Sampler(seed).Normal<T>(shape(bias_axes)), options.bias = bias;
          if (mask_axes >= 0) mask = RandomMask(shape(mask_axes), 0.6, seed), options.mask = mask;
          CheckAgainstReference(c, options, 6);
          if (testing::Test::HasFatalFailure()) {
            FAIL() << "causal " << static_cast<int>(causal) << " cap " << soft_cap << " bias " << bias_axes << " mask "
                   << mask_axes;
          }
        }
      }
    }
  }
}

TEST_P(OptionsTest, Combinations) {
  CheckCombinations<float>({.B = 2, .H = 2, .H_kv = 1, .N_q = 19, .N_k = 23, .E = 8, .E_v = 8});
  CheckCombinations<double>({.B = 2, .H = 2, .H_kv = 1, .N_q = 7, .N_k = 9, .E = 5, .E_v = 3});
  CheckCombinations<float>({.B = 2, .H = 4, .H_kv = 2, .N_q = 1, .N_k = 23, .E = 8, .E_v = 8});
  CheckCombinations<float>({.B = 2, .H = 1, .H_kv = 1, .N_q = 5, .N_k = 300, .E = 4, .E_v = 4});
}

TEST_P(OptionsTest, CausalOverManyBlocks) {
  for (const auto& [N_q, N_k] : {std::pair<int64_t, int64_t>{600, 600}, {300, 700}, {700, 300}, {1, 600}, {600, 1}}) {
    for (const Causal causal : {Causal::kTopLeft, Causal::kBottomRight}) {
      const Sizes s{.B = 1, .H = 1, .H_kv = 1, .N_q = N_q, .N_k = N_k, .E = 8, .E_v = 8};
      CheckAgainstReference(Case<float>(s), {.causal = causal});
      CheckAgainstReference(Case<double>(s), {.causal = causal});
    }
  }
}

TEST_P(OptionsTest, BiasWithAStridedLastAxis) {
  const Case<float> c({.B = 1, .H = 2, .H_kv = 2, .N_q = 20, .N_k = 30, .E = 8, .E_v = 8});
  const auto bias = Sampler(4).Normal<float>({2, 30, 20});
  CheckAgainstReference(c, {.bias = View<const float>(bias.data(), {1, 2, 20, 30}, {1200, 600, 1, 20})}, 5);
}

TEST_P(OptionsTest, FullyMaskedRowsGiveZeros) {
  constexpr int64_t N = 40;
  const Case<float> c({.B = 1, .H = 1, .H_kv = 1, .N_q = N, .N_k = 300, .E = 16, .E_v = 16});
  Tensor<bool> mask({1, 1, N, 300});
  Tensor<float> bias({1, 1, N, 300});
  for (int64_t i = 0; i < N; ++i) {
    for (int64_t j = 0; j < 300; ++j) {
      mask[i * 300 + j] = i % 3 != 0 && (i % 3 != 1 || j > 280);  // every third row sees the end only
      bias[i * 300 + j] = mask[i * 300 + j] ? 0 : -kInfinity;
    }
  }
  for (const bool additive : {false, true}) {
    Options<float> options;
    if (additive) {
      options.bias = bias;
    } else {
      options.mask = mask;
    }
    CheckAgainstReference(c, options);
    Tensor<float> out({1, 1, N, 16}), lse({1, 1, N});
    Arena arena;
    Attention<float>(c.q, c.k, c.v, options, out, arena, lse);
    for (int64_t i = 0; i < N; i += 3) {
      EXPECT_EQ(lse[i], -kInfinity);
      for (int64_t e = 0; e < 16; ++e) EXPECT_EQ(out[i * 16 + e], 0);
    }
  }
}

TEST_P(OptionsTest, InfiniteScoresShareTheWeight) {
  constexpr int64_t N_k = 600;  // several blocks of keys
  Case<float> c({.B = 1, .H = 1, .H_kv = 1, .N_q = 35, .N_k = N_k, .E = 4, .E_v = 5});
  Tensor<float> bias({1, 1, 35, N_k});
  for (int64_t i = 0; i < 35; ++i) {
    if (i % 4 == 1) bias[i * N_k + 3] = kInfinity;
    if (i % 4 == 2) bias[i * N_k + 3] = bias[i * N_k + 599] = bias[i * N_k + 250] = kInfinity;
    if (i % 4 == 3) bias[i * N_k + 400] = kInfinity, bias[i * N_k + 401] = -kInfinity;
  }
  CheckAgainstReference(c, {.bias = bias});
  Tensor<float> out({1, 1, 35, 5}), lse({1, 1, 35});
  Arena arena;
  Attention<float>(c.q, c.k, c.v, {.bias = bias}, out, arena, lse);
  for (int64_t e = 0; e < 5; ++e) {
    EXPECT_EQ(out[1 * 5 + e], c.v[3 * 5 + e]);
    EXPECT_NEAR(out[2 * 5 + e], (c.v[3 * 5 + e] + c.v[599 * 5 + e] + c.v[250 * 5 + e]) / 3, 1e-6);
  }
  EXPECT_EQ(lse[1], kInfinity);
  // Scores that overflow by themselves.
  for (float& x : c.q.span()) x = 1e30f;
  for (int64_t i = 0; i < c.k.size(); ++i) c.k[i] = i / 4 % 5 == 0 ? 1e30f : -1e30f;
  Attention<float>(c.q, c.k, c.v, {}, out, arena);
  for (int64_t e = 0; e < 5; ++e) {
    double mean = 0;
    for (int64_t j = 0; j < N_k; j += 5) mean += c.v[j * 5 + e] / 120.0;
    EXPECT_NEAR(out[e], mean, 1e-6);
  }
}

// As many weights as asked for are dropped, not the same in another row, head or entry, nor with another seed; the
// tiles and the oracle drop the same.
TEST_P(OptionsTest, Dropout) {
  constexpr int64_t N = 70, N_k = 300;
  const Sizes s{.B = 2, .H = 2, .H_kv = 1, .N_q = N, .N_k = N_k, .E = 8, .E_v = N_k};
  Case<float> c(s);
  for (float& x : c.q.span()) x = 0;  // equal weights
  for (int64_t i = 0; i < c.v.size(); ++i) c.v[i] = i / N_k % N_k == i % N_k;
  for (const float p : {0.1f, 0.5f}) {
    CheckAgainstReference(c, {.dropout = p, .seed = 5});
    CheckAgainstReference(Case<double>(s), {.causal = Causal::kTopLeft, .dropout = p, .seed = 5});
    Tensor<float> out({2, 2, N, N_k}), other({2, 2, N, N_k});
    Arena arena;
    Attention<float>(c.q, c.k, c.v, {.dropout = p, .seed = 5}, out, arena);
    Attention<float>(c.q, c.k, c.v, {.dropout = p, .seed = 6}, other, arena);
    const auto dropped = [](const Tensor<float>& x, int64_t i) { return x[i] == 0; };
    const auto n = static_cast<double>(out.size());
    // Six standard deviations of a binomial distribution.
    const double slack = 6 * std::sqrt(n * p * (1 - p));
    const double both = n * p * p, slack_both = 6 * std::sqrt(both);
    int64_t count = 0, seeds = 0, keys = 0, rows = 0, heads = 0, entries = 0;
    for (int64_t i = 0; i < out.size(); ++i) {
      if (!dropped(out, i)) continue;
      ++count;
      seeds += dropped(other, i);
      const auto shifted = [&](int64_t by) { return dropped(out, (i + by) % out.size()); };
      keys += shifted(1), rows += shifted(N_k), heads += shifted(N * N_k), entries += shifted(2 * N * N_k);
    }
    EXPECT_NEAR(static_cast<double>(count), n * p, slack);
    for (const int64_t pairs : {seeds, keys, rows, heads, entries}) {
      EXPECT_NEAR(static_cast<double>(pairs), both, slack_both);
    }
  }
  Tensor<float> out({2, 2, N, N_k});
  Arena arena;
  EXPECT_THROW(Attention<float>(c.q, c.k, c.v, {.dropout = 1}, out, arena), Error);
}

TEST_P(OptionsTest, NaNStaysInItsRow) {
  Case<float> c({.B = 1, .H = 1, .H_kv = 1, .N_q = 35, .N_k = 50, .E = 4, .E_v = 4});
  c.q[7 * 4] = std::numeric_limits<float>::quiet_NaN();
  Tensor<float> out({1, 1, 35, 4});
  Arena arena;
  Attention<float>(c.q, c.k, c.v, {}, out, arena);
  for (int64_t i = 0; i < out.size(); ++i) ASSERT_EQ(std::isnan(out[i]), i / 4 == 7) << i;
}

TEST_P(OptionsTest, MaskedKeysMayHoldAnyScore) {
  Case<float> c({.B = 1, .H = 1, .H_kv = 1, .N_q = 9, .N_k = 20, .E = 4, .E_v = 4});
  for (int64_t e = 0; e < 4; ++e) c.k[5 * 4 + e] = std::numeric_limits<float>::quiet_NaN();
  Tensor<bool> mask({1, 1, 1, 20});
  for (int64_t j = 0; j < 20; ++j) mask[j] = j != 5;
  Tensor<float> out({1, 1, 9, 4});
  Arena arena;
  Attention<float>(c.q, c.k, c.v, {.mask = mask}, out, arena);
  for (const float x : out.span()) ASSERT_TRUE(std::isfinite(x));
}

}  // namespace
}  // namespace qkv::attention
