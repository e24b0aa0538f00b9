// Attention sinks and the first position of queries: against the oracle, by finite differences, and against the same
// call spelled otherwise (a key with that score, a mask). PyTorch's answers are in golden_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "qkv/core/parallel.h"
#include "tests/attention/gradient_cases.h"
#include "tests/support/gradients.h"
#include "tests/support/isas.h"
#include "tests/support/threads.h"

namespace qkv::attention {
namespace {

class SinksTest : public IsaTest {
 protected:
  RestoreThreads restore_;
};
QKV_FOR_ALL_ISAS(SinksTest);

class PositionTest : public IsaTest {};
QKV_FOR_ALL_ISAS(PositionTest);

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr Causal kCausals[] = {Causal::kNone, Causal::kTopLeft, Causal::kBottomRight};

template <typename T>
struct Results {
  Results(const Case<T>& c, const Options<T>& options)
      : out({c.s.B, c.s.H, c.s.N_q, c.s.E_v}), lse({c.s.B, c.s.H, c.s.N_q}), weights({c.s.B, c.s.H, c.s.N_q, c.s.N_k}) {
    Arena arena;
    Attention<T>(c.q, c.k, c.v, options, out, arena, lse);
    AttentionWeights<T>(c.q, c.k, options, 0, c.s.N_q, weights);
  }
  Tensor<T> out, lse, weights;
};

// Output, weights, log-sum-exp and gradients against the oracle.
template <typename T>
void CheckAll(const Case<T>& c, const Options<T>& options, double sharpness) {
  SCOPED_TRACE(fmt::format("causal {} first {}", static_cast<int>(options.causal), options.first_position));
  CheckAgainstReference(c, options, sharpness);
  CheckGradient(c, options, sharpness);
  const Results<T> got(c, options);
  Tensor<double> unused(got.out.shape()), exact(got.weights.shape());
  const WideOptions<T> wide(options);
  ReferenceAttention(Cast<double>(c.q), Cast<double>(c.k), Cast<double>(c.v), wide.options, unused, exact);
  const double tolerance = Tolerance(c, options, sharpness);
  for (int64_t i = 0; i < exact.size(); ++i) ASSERT_NEAR(got.weights[i], exact[i], tolerance) << "weight " << i;
  if (options.sinks.empty()) return;
  for (int64_t row = 0; row < got.lse.size(); ++row) {  // what the keys leave is the sink's
    double keys = 0;
    for (int64_t j = 0; j < c.s.N_k; ++j) keys += exact[row * c.s.N_k + j];
    const double sink = *options.sinks.at(row / c.s.N_q % c.s.H);
    // The error of the log-sum-exp is that of its scores, and the sink's weight is at most 1.
    ASSERT_NEAR(std::exp(sink - static_cast<double>(got.lse[row])), 1 - keys, tolerance + 1e-6) << "row " << row;
  }
}

template <typename T>
void CheckCombinations(const Sizes& s) {
  const Case<T> c(s);
  const auto sinks = Sampler(2).Normal<T>({s.H}, 1, 2);
  const auto bias = Sampler(3).Normal<T>({s.B, 1, s.N_q, s.N_k});
  const auto mask = RandomMask({1, s.H, s.N_q, s.N_k}, 0.6, 4);
  std::vector<int64_t> lengths(static_cast<size_t>(s.B), s.N_k);
  lengths.back() = s.N_k / 2;
  for (const Causal causal : kCausals) {
    Options<T> options{.causal = causal, .sinks = sinks};
    CheckAll<T>(c, options, 6);
    options.window_left = 40, options.key_lengths = View<const int64_t>(lengths.data(), {s.B});
    CheckAll<T>(c, options, 6);
    options.soft_cap = 2, options.bias = bias, options.mask = mask;
    CheckAll<T>(c, options, 8);
    options.dropout = T(0.3), options.seed = 5;
    CheckAgainstReference(c, options, 8);
    CheckGradient(c, options, 8);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST_P(SinksTest, WithAllOtherOptions) {
  CheckCombinations<float>({.B = 2, .H = 4, .H_kv = 2, .N_q = 35, .N_k = 290, .E = 8, .E_v = 6});
  CheckCombinations<double>({.B = 2, .H = 2, .H_kv = 1, .N_q = 9, .N_k = 21, .E = 5, .E_v = 3});
  CheckCombinations<float>({.B = 1, .H = 2, .H_kv = 2, .N_q = 100, .N_k = 100, .E = 64, .E_v = 64});
}

// Heads that share keys become queries of one head, and long rows are split along their keys.
TEST_P(SinksTest, DecodingAndSplitKeys) {
  for (const int64_t N_k : {1, 257, 3000}) {
    CheckCombinations<float>({.B = 2, .H = 6, .H_kv = 2, .N_q = 1, .N_k = N_k, .E = 8, .E_v = 5});
    CheckCombinations<float>({.B = 1, .H = 2, .H_kv = 2, .N_q = 1, .N_k = N_k, .E = 16, .E_v = 16});
    CheckCombinations<float>({.B = 1, .H = 2, .H_kv = 1, .N_q = 7, .N_k = N_k, .E = 8, .E_v = 5});
  }
  CheckCombinations<double>({.B = 1, .H = 4, .H_kv = 2, .N_q = 1, .N_k = 2100, .E = 4, .E_v = 4});
}

TEST_P(SinksTest, IsAKeyWithoutAValue) {
  // One more key with that score and a value of zero.
  const Sizes s{.B = 2, .H = 2, .H_kv = 2, .N_q = 20, .N_k = 301, .E = 8, .E_v = 6};
  Case<float> c(s);
  const auto sinks = Sampler(8).Normal<float>({2});
  Tensor<float> bias({1, 2, 1, 301});
  for (int64_t h = 0; h < 2; ++h) bias[h * 301 + 300] = sinks[h];
  for (int64_t h = 0; h < 4; ++h) {
    std::fill_n(c.k.data() + (h * 301 + 300) * 8, 8, 0.0f), std::fill_n(c.v.data() + (h * 301 + 300) * 6, 6, 0.0f);
  }
  Tensor<float> with_key({2, 2, 20, 6}), with_sink({2, 2, 20, 6}), lse_key({2, 2, 20}), lse_sink({2, 2, 20});
  Arena arena;
  Attention<float>(c.q, c.k, c.v, {.bias = bias}, with_key, arena, lse_key);
  Attention<float>(c.q, c.k.view().slice(2, 0, 300), c.v.view().slice(2, 0, 300), {.sinks = sinks}, with_sink, arena,
                   lse_sink);
  for (int64_t i = 0; i < with_key.size(); ++i) ASSERT_NEAR(with_key[i], with_sink[i], 1e-5);
  for (int64_t i = 0; i < lse_key.size(); ++i) ASSERT_NEAR(lse_key[i], lse_sink[i], 1e-5);
}

TEST_P(SinksTest, InfiniteOnes) {
  for (const Sizes& s : {Sizes{.H = 2, .H_kv = 1, .N_q = 40, .N_k = 300, .E = 8, .E_v = 8},
                         Sizes{.H = 2, .H_kv = 1, .N_q = 1, .N_k = 3000, .E = 8, .E_v = 8}}) {
    const Case<float> c(s);
    Tensor<float> sinks({2});
    sinks[0] = sinks[1] = -kInfinity;
    const Results<float> plain(c, {}), without(c, {.sinks = sinks});
    EXPECT_TRUE(std::ranges::equal(plain.out.span(), without.out.span()));
    EXPECT_TRUE(std::ranges::equal(plain.lse.span(), without.lse.span()));
    EXPECT_TRUE(std::ranges::equal(plain.weights.span(), without.weights.span()));
    sinks[0] = kInfinity;  // takes all the weight of its head
    const Results<float> all(c, {.sinks = sinks});
    const int64_t half = all.out.size() / 2;
    for (int64_t i = 0; i < half; ++i) ASSERT_EQ(all.out[i], 0);
    for (int64_t i = half; i < 2 * half; ++i) ASSERT_EQ(all.out[i], plain.out[i]);
    EXPECT_EQ(all.lse[0], kInfinity);
  }
}

TEST_P(SinksTest, FullyMaskedRowsGiveZeros) {
  constexpr int64_t N = 40;
  const Case<float> c({.N_q = N, .N_k = 300, .E = 8, .E_v = 8});
  Tensor<float> sinks({1});
  sinks[0] = 0.5f;
  Tensor<bool> mask({1, 1, N, 300});
  for (int64_t i = 0; i < N; ++i) std::fill_n(mask.data() + i * 300, 300, i % 3 != 0);
  const Results<float> got(c, {.mask = mask, .sinks = sinks});
  for (int64_t i = 0; i < N; i += 3) {
    EXPECT_NEAR(got.lse[i], 0.5, 1e-6);
    for (int64_t e = 0; e < 8; ++e) EXPECT_EQ(got.out[i * 8 + e], 0);
    for (int64_t j = 0; j < 300; ++j) EXPECT_EQ(got.weights[i * 300 + j], 0);
  }
  CheckGradient<float>(c, {.mask = mask, .sinks = sinks}, 1);
}

// Every gradient, by central differences.
TEST_P(SinksTest, FiniteDifferences) {
  const Sizes s{.B = 2, .H = 4, .H_kv = 2, .N_q = 4, .N_k = 6, .E = 3, .E_v = 4};
  Case<double> c(s);
  const auto dout = Sampler(5).Normal<double>({s.B, s.H, s.N_q, s.E_v});
  auto bias = Sampler(6).Normal<double>({1, s.H, s.N_q, s.N_k});
  auto sinks = Sampler(7).Normal<double>({s.H});
  for (const bool with_options : {false, true}) {
    Options<double> options{.sinks = sinks};
    if (with_options) {
      options = {.scale = -0.8, .causal = Causal::kTopLeft, .soft_cap = 1.5, .bias = bias, .window_left = 3};
      options.first_position = 2, options.sinks = sinks, options.dropout = 0.25, options.seed = 3;
    }
    const auto got = Differentiate<double>(c, options, dout);
    const auto loss = [&] {
      Tensor<double> out(dout.shape());
      Arena arena;
      Attention<double>(c.q, c.k, c.v, options, out, arena);
      return WeightedSum(dout, out);
    };
    ExpectGradient(loss, c.q, got.dq, "dq"), ExpectGradient(loss, c.k, got.dk, "dk");
    ExpectGradient(loss, c.v, got.dv, "dv"), ExpectGradient(loss, sinks, got.dsinks, "dsinks");
    if (with_options) ExpectGradient(loss, bias, got.dbias, "dbias");
  }
}

TEST_P(SinksTest, ThreadsDoNotChangeTheBits) {
  const Sizes s{.B = 2, .H = 3, .H_kv = 3, .N_q = 130, .N_k = 300, .E = 16, .E_v = 16};
  const Case<float> c(s);
  const auto sinks = Sampler(2).Normal<float>({3});
  const auto dout = Sampler(9).Normal<float>({s.B, s.H, s.N_q, s.E_v});
  const Options<float> options{.sinks = sinks};
  SetNumThreads(1);
  const Results<float> one(c, options);
  const auto gradients = Differentiate<float>(c, options, dout);
  SetNumThreads(5);
  const Results<float> five(c, options);
  EXPECT_TRUE(std::ranges::equal(one.out.span(), five.out.span()));
  EXPECT_TRUE(std::ranges::equal(gradients.dsinks.span(), Differentiate<float>(c, options, dout).dsinks.span()));
}

TEST_P(SinksTest, Bfloat16) {
  const Sizes s{.B = 1, .H = 2, .H_kv = 1, .N_q = 150, .N_k = 270, .E = 32, .E_v = 32};
  const Case<float> c(s);
  const auto sinks = Sampler(2).Normal<float>({2}, 2);
  const auto dout = Sampler(9).Normal<float>({1, 2, 150, 32});
  Tensor<float> full({1, 2, 150, 32}), rounded({1, 2, 150, 32});
  Arena arena;
  Options<float> options{.causal = Causal::kBottomRight, .sinks = sinks};
  Attention<float>(c.q, c.k, c.v, options, full, arena);
  const auto exact = Differentiate<float>(c, options, dout);
  options.bf16 = true;
  Attention<float>(c.q, c.k, c.v, options, rounded, arena);
  const auto got = Differentiate<float>(c, options, dout);
  // Operands are off by 2^-9 each: a score of size |q||k| / sqrt(E) by twice that share of it.
  const double score = GreatestNorm(c.q, 32) * GreatestNorm(c.k, 32) / std::sqrt(32.0), u = 0x1p-9;
  const double v = GreatestNorm(c.v, 32), g = GreatestNorm(dout, 32);
  for (int64_t i = 0; i < full.size(); ++i) ASSERT_NEAR(full[i], rounded[i], v * u * (4 * score + 4)) << i;
  for (int64_t h = 0; h < 2; ++h) ASSERT_NEAR(exact.dsinks[h], got.dsinks[h], 150 * g * v * u * (4 * score + 4));
}

TEST_P(SinksTest, WrongShapesAreRefused) {
  const Case<float> c({.H = 2, .H_kv = 2, .N_q = 3, .N_k = 3, .E = 4, .E_v = 4});
  Tensor<float> out({1, 2, 3, 4}), three({3}), rows({2, 1});
  Arena arena;
  EXPECT_THROW(Attention<float>(c.q, c.k, c.v, {.sinks = three}, out, arena), Error);
  EXPECT_THROW(Attention<float>(c.q, c.k, c.v, {.sinks = rows}, out, arena), Error);
  EXPECT_THROW(Attention<float>(c.q, c.k, c.v, {.first_position = int64_t{1} << 60}, out, arena), Error);
}

TEST_P(PositionTest, AgreesWithTheReference) {
  for (const int64_t N_q : {1, 4, 40}) {
    for (const int64_t N_k : {10, 300}) {
      for (const int64_t first : {int64_t{-3}, int64_t{0}, int64_t{5}, N_k - 1, 2 * N_k}) {
        for (const Causal causal : kCausals) {
          const Sizes s{.B = 2, .H = 2, .H_kv = 1, .N_q = N_q, .N_k = N_k, .E = 8, .E_v = 5};
          Options<float> options{.causal = causal, .first_position = first};
          CheckAll(Case<float>(s), options, 0);
          options.window_left = 6, options.window_right = 2;
          CheckAll(Case<float>(s), options, 0);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// Queries in two calls, as with cached keys, see the same as in one.
TEST_P(PositionTest, ContinuesASequence) {
  constexpr int64_t N = 90, kDone = 33;
  const Case<float> c({.H = 2, .H_kv = 2, .N_q = N, .N_k = N, .E = 16, .E_v = 16});
  Tensor<float> all({1, 2, N, 16}), rest({1, 2, N - kDone, 16});
  Arena arena;
  for (const int64_t window : {-1, 20}) {
    Options<float> options{.causal = Causal::kTopLeft, .window_left = window};
    Attention<float>(c.q, c.k, c.v, options, all, arena);
    options.first_position = kDone;
    Attention<float>(c.q.view().slice(2, kDone, N), c.k, c.v, options, rest, arena);
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t i = kDone * 16; i < N * 16; ++i) {
        ASSERT_NEAR(all[h * N * 16 + i], rest[h * (N - kDone) * 16 + i - kDone * 16], 1e-5);
      }
    }
  }
}

}  // namespace
}  // namespace qkv::attention
