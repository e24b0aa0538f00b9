// AttentionWeights against the oracle and against the fused call.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/attention/cases.h"
#include "tests/support/isas.h"

namespace qkv::attention {
namespace {

class WeightsTest : public IsaTest {};
QKV_FOR_ALL_ISAS(WeightsTest);

template <typename T>
void CheckWeights(const Sizes& s, const Options<T>& options, int64_t begin, int64_t end) {
  const Case<T> c(s);
  const auto q = Cast<double>(c.q), k = Cast<double>(c.k), v = Cast<double>(c.v);
  Tensor<double> unused({s.B, s.H, s.N_q, s.E_v}), exact({s.B, s.H, s.N_q, s.N_k});
  ReferenceAttention(q, k, v, WideOptions<T>(options).options, unused, exact);
  const int64_t rows = end - begin;
  Tensor<T> weights({s.B, s.H, rows, s.N_k});
  for (T& w : weights.span()) w = 77;
  AttentionWeights<T>(c.q, c.k, options, begin, end, weights);
  const double tolerance = Tolerance(c, options, 6);
  for (int64_t h = 0; h < s.B * s.H; ++h) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t j = 0; j < s.N_k; ++j) {
        ASSERT_NEAR(weights[(h * rows + r) * s.N_k + j], exact[(h * s.N_q + begin + r) * s.N_k + j], tolerance)
            << ToString(s) << " rows " << begin << ".." << end << " at " << h << ", " << r << ", " << j;
      }
    }
  }
}

TEST_P(WeightsTest, AgreeWithTheReference) {
  for (const int64_t N_k : {1, 7, 65, 300, 513}) {
    const Sizes s{.B = 2, .H = 4, .H_kv = 2, .N_q = 40, .N_k = N_k, .E = 24, .E_v = 1};
    const auto bias = Sampler(3).Normal<float>({2, 1, 40, N_k});
    const auto mask = RandomMask({1, 4, 40, N_k}, 0.5, 3);
    for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 1}, {0, 40}, {3, 4}, {5, 39}}) {
      CheckWeights<float>(s, {}, begin, end);
      CheckWeights<double>(s, {}, begin, end);
      CheckWeights<float>(s, {.causal = Causal::kTopLeft}, begin, end);
      CheckWeights<float>(s, {.causal = Causal::kBottomRight, .soft_cap = 3, .bias = bias, .mask = mask}, begin, end);
    }
  }
}

TEST_P(WeightsTest, EachRowSumsToOneAndMatchesTheFusedCall) {
  const Sizes s{.B = 1, .H = 2, .H_kv = 2, .N_q = 50, .N_k = 197, .E = 64, .E_v = 64};
  const Case<float> c(s);
  Tensor<float> weights({1, 2, 50, 197}), out({1, 2, 50, 64});
  AttentionWeights<float>(c.q, c.k, {}, 0, 50, weights);
  Arena arena;
  Attention<float>(c.q, c.k, c.v, {}, out, arena);
  for (int64_t r = 0; r < 100; ++r) {
    double sum = 0;
    for (int64_t j = 0; j < 197; ++j) sum += weights[r * 197 + j];
    ASSERT_NEAR(sum, 1, 1e-6);
    for (int64_t e = 0; e < 64; ++e) {
      double value = 0;
      for (int64_t j = 0; j < 197; ++j) {
        value += static_cast<double>(weights[r * 197 + j]) * c.v[(r / 50 * 197 + j) * 64 + e];
      }
      ASSERT_NEAR(out[r * 64 + e], value, 30 * UnitRoundoff<float>());
    }
  }
}

TEST_P(WeightsTest, FullyMaskedAndInfiniteRows) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Case<float> c({.B = 1, .H = 1, .H_kv = 1, .N_q = 3, .N_k = 300, .E = 4, .E_v = 1});
  Tensor<float> bias({1, 1, 3, 300}), weights({1, 1, 3, 300});
  for (int64_t j = 0; j < 300; ++j) bias[j] = -kInfinity;
  bias[300 + 5] = bias[300 + 290] = kInfinity;
  AttentionWeights<float>(c.q, c.k, {.bias = bias}, 0, 3, weights);
  for (int64_t j = 0; j < 300; ++j) {
    ASSERT_EQ(weights[j], 0);
    ASSERT_EQ(weights[300 + j], j == 5 || j == 290 ? 0.5f : 0);
  }
}

TEST_P(WeightsTest, WrongRowsAreRefused) {
  Tensor<float> q({1, 1, 5, 4}), weights({1, 1, 2, 5});
  EXPECT_THROW(AttentionWeights<float>(q, q, {}, 4, 6, weights), Error);
  EXPECT_THROW(AttentionWeights<float>(q, q, {}, 0, 3, weights), Error);
}

}  // namespace
}  // namespace qkv::attention
