// Attention in its steps against the oracle.
#include "qkv/attention/scores.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/attention/cases.h"
#include "tests/support/isas.h"

namespace qkv::attention {
namespace {

class ScoresTest : public IsaTest {};
QKV_FOR_ALL_ISAS(ScoresTest);

template <typename T>
void CheckSteps(const Sizes& s, const Options<T>& options) {
  const Case<T> c(s);
  Tensor<double> out({s.B, s.H, s.N_q, s.E_v}), exact({s.B, s.H, s.N_q, s.N_k});
  ReferenceAttention(Cast<double>(c.q), Cast<double>(c.k), Cast<double>(c.v), WideOptions<T>(options).options, out,
                     exact);
  Tensor<T> weights({s.B, s.H, s.N_q, s.N_k}), sums({s.B, s.H, s.N_q, s.E_v});
  Scores<T>(c.q, c.k, options, weights);
  ScoresToWeights<T>(options.sinks, weights);
  SumByWeights<T>(weights, c.v, sums);
  const double tolerance = Tolerance(c, options, 6);
  for (int64_t i = 0; i < weights.size(); ++i) ASSERT_NEAR(weights[i], exact[i], tolerance) << ToString(s) << i;
  for (int64_t i = 0; i < sums.size(); ++i) ASSERT_NEAR(sums[i], out[i], tolerance) << ToString(s) << i;
}

TEST_P(ScoresTest, StepsGiveWhatTheReferenceGives) {
  for (const int64_t N_k : {1, 7, 65, 130}) {
    const Sizes s{.B = 2, .H = 4, .H_kv = 2, .N_q = 40, .N_k = N_k, .E = 24, .E_v = 5};
    const auto bias = Sampler(3).Normal<float>({2, 1, 40, N_k});
    const auto mask = RandomMask({1, 4, 1, N_k}, 0.5, 3);
    const auto sinks = Sampler(4).Normal<float>({4});
    Tensor<int64_t> lengths({2});
    lengths[0] = N_k / 2, lengths[1] = N_k;
    CheckSteps<float>(s, {});
    CheckSteps<double>(s, {.scale = 0.3});
    CheckSteps<float>(s, {.causal = Causal::kTopLeft, .window_left = 9});
    CheckSteps<float>(s, {.causal = Causal::kBottomRight, .soft_cap = 3, .bias = bias, .mask = mask});
    CheckSteps<float>(s, {.key_lengths = lengths.view(), .window_right = 4, .sinks = sinks.view()});
  }
}

TEST_P(ScoresTest, UnseenKeysAndInfiniteScores) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Case<float> c({.B = 1, .H = 1, .H_kv = 1, .N_q = 3, .N_k = 30, .E = 4, .E_v = 1});
  Tensor<float> bias({1, 1, 3, 30}), weights({1, 1, 3, 30});
  for (int64_t j = 0; j < 30; ++j) bias[j] = -kInfinity;
  bias[30 + 5] = bias[30 + 29] = kInfinity;
  Scores<float>(c.q, c.k, {.causal = Causal::kTopLeft, .bias = bias}, weights);
  ASSERT_EQ(weights[2 * 30 + 3], -kInfinity);
  Scores<float>(c.q, c.k, {.bias = bias}, weights);
  ScoresToWeights<float>({}, weights);
  for (int64_t j = 0; j < 30; ++j) {
    ASSERT_EQ(weights[j], 0);
    ASSERT_EQ(weights[30 + j], j == 5 || j == 29 ? 0.5f : 0);
  }
}

TEST_P(ScoresTest, NanIsNotLost) {
  for (const int64_t at : {0, 7, 29}) {
    Tensor<float> weights({1, 1, 1, 30});
    weights[at] = std::numeric_limits<float>::quiet_NaN();
    ScoresToWeights<float>({}, weights);
    for (int64_t j = 0; j < 30; ++j) ASSERT_TRUE(std::isnan(weights[j])) << at << " " << j;
  }
}

TEST_P(ScoresTest, WrongShapesAreRefused) {
  const Case<float> c({.B = 1, .H = 2, .H_kv = 2, .N_q = 3, .N_k = 4, .E = 4, .E_v = 1});
  Tensor<float> small({1, 2, 3, 3}), weights({1, 2, 3, 4}), sinks({3});
  EXPECT_THROW(Scores<float>(c.q, c.k, {}, small), Error);
  EXPECT_THROW(ScoresToWeights<float>(sinks.view(), weights), Error);
}

}  // namespace
}  // namespace qkv::attention
