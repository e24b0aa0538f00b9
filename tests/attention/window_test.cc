// Windows and key lengths: against the oracle, against the same limits as a mask, and without what they hide.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "qkv/core/parallel.h"
#include "tests/attention/gradient_cases.h"
#include "tests/support/isas.h"
#include "tests/support/threads.h"

namespace qkv::attention {
namespace {

class WindowTest : public IsaTest {
 protected:
  RestoreThreads restore_;
};
QKV_FOR_ALL_ISAS(WindowTest);

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr Causal kCausals[] = {Causal::kNone, Causal::kTopLeft, Causal::kBottomRight};

View<const int64_t> Lengths(const std::vector<int64_t>& lengths) {
  return {lengths.data(), {static_cast<int64_t>(lengths.size())}};
}

template <typename T>
std::string ToString(const Options<T>& o) {
  std::string text = fmt::format("causal {} window {} {}", static_cast<int>(o.causal), o.window_left, o.window_right);
  for (int64_t b = 0; !o.key_lengths.empty() && b < o.key_lengths.dim(0); ++b) {
    text += fmt::format(" length {}", *o.key_lengths.at(b));
  }
  return text;
}

// All rows, and a few from the middle.
template <typename T>
void CheckWeights(const Case<T>& c, const Options<T>& options, double sharpness = 0) {
  const auto [B, H, H_kv, N_q, N_k, E, E_v] = c.s;
  Tensor<double> unused({B, H, N_q, E_v}), exact({B, H, N_q, N_k});
  ReferenceAttention(Cast<double>(c.q), Cast<double>(c.k), Cast<double>(c.v), WideOptions<T>(options).options, unused,
                     exact);
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, N_q}, {N_q / 3, (N_q + 1) / 2}}) {
    Tensor<T> weights({B, H, end - begin, N_k});
    for (T& w : weights.span()) w = 77;
    AttentionWeights<T>(c.q, c.k, options, begin, end, weights);
    const double tolerance = Tolerance(c, options, sharpness);
    for (int64_t h = 0, n = 0; h < B * H; ++h) {
      for (int64_t i = begin; i < end; ++i) {
        for (int64_t j = 0; j < N_k; ++j, ++n) {
          const double expected = exact[(h * N_q + i) * N_k + j];
          ASSERT_NEAR(weights[n], expected, tolerance) << "head " << h << " row " << i << " key " << j;
          ASSERT_TRUE(expected != 0 || weights[n] == 0);
        }
      }
    }
  }
}

template <typename T>
void CheckAll(const Case<T>& c, const Options<T>& options, double sharpness = 0) {
  SCOPED_TRACE(ToString(options));
  CheckAgainstReference(c, options, sharpness);
  CheckWeights(c, options, sharpness);
  CheckGradient(c, options, sharpness);
}

TEST_P(WindowTest, AgreesWithTheReference) {
  const int64_t windows[][2] = {{0, 0}, {1, -1}, {-1, 0}, {0, 7}, {7, 1}, {64, 64}, {-1, 300}, {300, 7}};
  for (const int64_t N_q : {1, 5, 40, 70}) {
    for (const int64_t N_k : {1, 63, 257, 600}) {
      const Case<float> c({.N_q = N_q, .N_k = N_k, .E = 8, .E_v = 5});
      for (const auto& [left, right] : windows) {
        const Causal causal = kCausals[(left + N_k + N_q) % 3];
        CheckAll<float>(c, {.causal = causal, .window_left = left, .window_right = right});
        if (HasFatalFailure()) return;
      }
    }
  }
  for (const Causal causal : kCausals) {
    const Sizes s{.H = 2, .N_q = 300, .N_k = 600, .E = 4, .E_v = 4};
    CheckAll<float>(Case<float>(s), {.causal = causal, .window_left = 64, .window_right = 300});
    CheckAll<double>(Case<double>(s), {.causal = causal, .window_left = 7, .window_right = 0});
  }
  // More positions than keys: the last queries see none.
  CheckAll<float>(Case<float>({.N_q = 300, .N_k = 40, .E = 4, .E_v = 4}), {.window_left = 64, .window_right = 1});
}

TEST_P(WindowTest, KeyLengthsAgreeWithTheReference) {
  for (const int64_t N_q : {1, 7, 40}) {
    for (const int64_t N_k : {1, 63, 300, 600}) {
      const Case<float> c({.B = 4, .H = 2, .H_kv = 1, .N_q = N_q, .N_k = N_k, .E = 8, .E_v = 5});
      const std::vector<int64_t> lengths{N_k / 2, 0, N_k, 1};
      for (const Causal causal : kCausals) {
        CheckAll<float>(c, {.causal = causal, .key_lengths = Lengths(lengths)});
        CheckAll<float>(c, {.causal = causal, .key_lengths = Lengths(lengths), .window_left = 64, .window_right = 7});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(WindowTest, WithAllOtherOptions) {
  const Sizes s{.B = 2, .H = 4, .H_kv = 2, .N_q = 35, .N_k = 290, .E = 8, .E_v = 6};
  const std::vector<int64_t> lengths{290, 123};
  uint64_t seed = 10;
  for (const Causal causal : kCausals) {
    for (const double dropout : {0.0, 0.3}) {
      for (const int64_t N_q : {int64_t{1}, s.N_q}) {
        Sizes sizes = s;
        sizes.N_q = N_q;
        const auto run = [&]<typename T>(T) {
          ++seed;
          const auto bias = Sampler(seed).Normal<T>({seed % 2 ? 1 : s.B, seed % 3 ? 1 : s.H, N_q, s.N_k});
          const auto mask = RandomMask({s.B, 1, N_q, s.N_k}, 0.6, seed);
          Options<T> options{.causal = causal, .soft_cap = 2, .bias = bias, .mask = mask};
          options.key_lengths = Lengths(lengths), options.window_left = 40, options.window_right = 100;
          options.dropout = static_cast<T>(dropout), options.seed = seed;
          CheckAll(Case<T>(sizes), options, 6);
        };
        run(0.f), run(0.0);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// A window of a long row, for few queries: the keys are cut into parts.
TEST_P(WindowTest, FewQueriesOfManyKeys) {
  const std::vector<int64_t> lengths{2100, 900, 0};
  for (const int64_t N_q : {1, 3, 16}) {
    for (const int64_t H_kv : {4, 2}) {
      const Sizes sizes{.B = 3, .H = 4, .H_kv = H_kv, .N_q = N_q, .N_k = 2100, .E = 24, .E_v = 20};
      const Case<float> c(sizes);
      const auto bias = Sampler(2).Normal<float>({1, 4, N_q, 2100}, 0, 5);
      const auto mask = RandomMask({3, 1, N_q, 2100}, 0.05, 3);
      for (const Causal causal : kCausals) {
        CheckAgainstReference(c, {.causal = causal, .key_lengths = Lengths(lengths)});
        CheckAgainstReference(Case<double>(sizes), {.causal = causal, .window_left = 300, .window_right = 1500});
        CheckAgainstReference(
            c, {.causal = causal, .bias = bias, .mask = mask, .key_lengths = Lengths(lengths), .window_left = 1200},
            30);
        if (HasFatalFailure()) return;
      }
    }
  }
}

template <typename T>
Tensor<T> Attended(View<const T> q, View<const T> k, View<const T> v, const Options<T>& options,
                   Tensor<T>* lse = nullptr) {
  Tensor<T> out({q.dim(0), q.dim(1), q.dim(2), v.dim(3)}), sums({q.dim(0), q.dim(1), q.dim(2)});
  Arena arena;
  Attention<T>(q, k, v, options, out, arena, sums);
  if (lse) *lse = std::move(sums);
  return out;
}

// A padded entry gives the bits of the same entry without padding, whatever lies there.
TEST_P(WindowTest, PaddingChangesNoBit) {
  constexpr int64_t N_k = 2100;
  const std::vector<int64_t> lengths{700, 1024, 1500, 30, N_k};
  const auto B = static_cast<int64_t>(lengths.size());
  for (const auto& [N_q, H_kv] : {std::pair<int64_t, int64_t>{1, 2}, {1, 4}, {3, 2}, {40, 2}}) {
    Case<float> c({.B = B, .H = 4, .H_kv = H_kv, .N_q = N_q, .N_k = N_k, .E = 16, .E_v = 12});
    for (int64_t b = 0; b < B; ++b) {
      for (int64_t h = 0; h < H_kv; ++h) {
        std::fill(c.k.view().at(b, h, lengths[b]), c.k.view().at(b, h) + N_k * 16, NAN);
        std::fill(c.v.view().at(b, h, lengths[b]), c.v.view().at(b, h) + N_k * 12, NAN);
      }
    }
    for (const int64_t window : {-1, 50, 1100}) {
      for (const bool bf16 : {false, true}) {
        Options<float> options{.causal = Causal::kBottomRight, .window_left = window, .bf16 = bf16};
        options.key_lengths = Lengths(lengths);
        Tensor<float> lse, lse_alone;
        const auto out = Attended<float>(c.q, c.k, c.v, options, &lse);
        Tensor<float> weights({B, 4, N_q, N_k});
        AttentionWeights<float>(c.q, c.k, options, 0, N_q, weights);
        options.key_lengths = {};
        for (int64_t b = 0; b < B; ++b) {
          SCOPED_TRACE(fmt::format("{} queries, {} key heads, length {}, window {}", N_q, H_kv, lengths[b], window));
          const auto q = c.q.view().slice(0, b, b + 1);
          const auto cut = [&](auto& x) { return x.view().slice(0, b, b + 1).slice(2, 0, lengths[b]); };
          const auto alone = Attended<float>(q, cut(c.k), cut(c.v), options, &lse_alone);
          for (int64_t i = 0; i < alone.size(); ++i) ASSERT_EQ(out[b * alone.size() + i], alone[i]) << i;
          for (int64_t i = 0; i < lse_alone.size(); ++i) ASSERT_EQ(lse[b * lse_alone.size() + i], lse_alone[i]) << i;
          Tensor<float> weights_alone({1, 4, N_q, lengths[b]});
          AttentionWeights<float>(q, cut(c.k), options, 0, N_q, weights_alone);
          for (int64_t row = 0; row < 4 * N_q; ++row) {
            const float* got = weights.data() + (b * 4 * N_q + row) * N_k;
            for (int64_t j = 0; j < N_k; ++j) {
              ASSERT_EQ(got[j], j < lengths[b] ? weights_alone[row * lengths[b] + j] : 0) << row << ", " << j;
            }
          }
        }
      }
    }
  }
}

// As in decoding: a query sees the last keys, and gives the bits that they alone give.
TEST_P(WindowTest, AQueryOfAWindowReadsItsKeysAlone) {
  for (const int64_t H_kv : {1, 2, 4}) {
    for (const int64_t left : {0, 100, 1500}) {
      Case<float> c({.B = 2, .H = 4, .H_kv = H_kv, .N_q = 1, .N_k = 3000, .E = 16, .E_v = 16});
      const auto last = [&](auto& x) { return x.view().slice(2, 3000 - left - 1, 3000); };
      const auto alone = Attended<float>(c.q, last(c.k), last(c.v), {});
      for (int64_t h = 0; h < 2 * H_kv; ++h) std::fill_n(c.v.data() + h * 3000 * 16, (3000 - left - 1) * 16, NAN);
      const auto out = Attended<float>(c.q, c.k, c.v, {.causal = Causal::kBottomRight, .window_left = left});
      for (int64_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], alone[i]) << i;
    }
  }
}

// The same limits as a mask round differently at most: twice the tolerance of each.
TEST_P(WindowTest, EqualsTheMaskThatSaysTheSame) {
  const Case<float> c({.B = 2, .H = 2, .H_kv = 1, .N_q = 300, .N_k = 600, .E = 16, .E_v = 16});
  const std::vector<int64_t> lengths{600, 333};
  const Options<float> window{.key_lengths = Lengths(lengths), .window_left = 90, .window_right = 20};
  Tensor<bool> mask({2, 1, 300, 600});
  for (int64_t b = 0, n = 0; b < 2; ++b) {
    for (int64_t i = 0; i < 300; ++i) {
      for (int64_t j = 0; j < 600; ++j) mask[n++] = j >= i - 90 && j <= i + 20 && j < lengths[b];
    }
  }
  const Options<float> masked{.mask = mask};
  const auto out = Attended<float>(c.q, c.k, c.v, window), expected = Attended<float>(c.q, c.k, c.v, masked);
  const double tolerance = 2 * Tolerance(c, window);
  for (int64_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], expected[i], tolerance) << i;
  const auto dout = Sampler(7).Normal<float>(out.shape());
  const auto got = Differentiate<float>(c, window, dout), exact = Differentiate<float>(c, masked, dout);
  const Bounds<float> bounds(c, window, dout, 0);
  ExpectNear(got.dq, Cast<double>(exact.dq), 2 * bounds.dq, "dq");
  ExpectNear(got.dk, Cast<double>(exact.dk), 2 * bounds.dk, "dk");
  ExpectNear(got.dv, Cast<double>(exact.dv), 2 * bounds.dv, "dv");
}

// Queries before all keys, and behind all of them.
TEST_P(WindowTest, HiddenRowsGiveZeros) {
  constexpr int64_t N_q = 300, N_k = 200, kE = 8;
  const std::vector<int64_t> lengths{150, 0};
  const Case<float> c({.B = 2, .N_q = N_q, .N_k = N_k, .E = kE, .E_v = kE});
  const auto dout = Sampler(7).Normal<float>({2, 1, N_q, kE});
  for (const Options<float>& limits :
       {Options<float>{.causal = Causal::kBottomRight}, Options<float>{.window_left = 10, .window_right = 3}}) {
    for (const bool bf16 : {false, true}) {
      Options<float> options = limits;
      options.key_lengths = Lengths(lengths), options.bf16 = bf16;
      Tensor<float> lse;
      const auto out = Attended<float>(c.q, c.k, c.v, options, &lse);
      const auto got = Differentiate<float>(c, options, dout);
      for (int64_t row = 0; row < 2 * N_q; ++row) {
        const int64_t i = row % N_q;
        const bool sees = row < N_q && (options.window_left < 0 ? i >= N_q - 150 : i - 10 < 150);
        ASSERT_EQ(lse[row] != -kInfinity, sees) << row;
        for (int64_t e = 0; e < kE && !sees; ++e) ASSERT_EQ(out[row * kE + e], 0) << row;
        for (int64_t e = 0; e < kE && !sees; ++e) ASSERT_EQ(got.dq[row * kE + e], 0) << row;
      }
      for (int64_t j = 0; j < 2 * N_k; ++j) {
        for (int64_t e = 0; e < kE && j >= 150; ++e) ASSERT_EQ(got.dk[j * kE + e], 0) << j;
        for (int64_t e = 0; e < kE && j >= 150; ++e) ASSERT_EQ(got.dv[j * kE + e], 0) << j;
      }
    }
  }
}

TEST_P(WindowTest, ThreadsDoNotChangeTheResult) {
  const std::vector<int64_t> lengths{700, 410};
  for (const bool with_bias : {false, true}) {
    const Sizes s{.B = 2, .H = 4, .H_kv = 2, .N_q = 600, .N_k = 700, .E = 16, .E_v = 16};
    const Case<float> c(s);
    const auto dout = Sampler(4).Normal<float>({s.B, s.H, s.N_q, s.E_v});
    Options<float> options{.key_lengths = Lengths(lengths), .window_left = 70, .window_right = 130};
    Tensor<float> bias;
    if (with_bias) bias = Sampler(2).Normal<float>({1, 1, s.N_q, s.N_k}), options.bias = bias;
    SetNumThreads(1);
    const auto out = Attended<float>(c.q, c.k, c.v, options);
    const auto expected = Differentiate<float>(c, options, dout);
    for (const int threads : {2, 3, 16}) {
      SetNumThreads(threads);
      const auto again = Attended<float>(c.q, c.k, c.v, options);
      const auto got = Differentiate<float>(c, options, dout);
      for (int64_t i = 0; i < out.size(); ++i) ASSERT_EQ(again[i], out[i]) << threads;
      for (int64_t i = 0; i < got.dq.size(); ++i) ASSERT_EQ(got.dq[i], expected.dq[i]) << threads;
      for (int64_t i = 0; i < got.dk.size(); ++i) ASSERT_EQ(got.dk[i], expected.dk[i]) << threads;
      for (int64_t i = 0; i < got.dv.size(); ++i) ASSERT_EQ(got.dv[i], expected.dv[i]) << threads;
      for (int64_t i = 0; i < got.dbias.size(); ++i) ASSERT_EQ(got.dbias[i], expected.dbias[i]) << threads;
    }
  }
}

// By central differences of Σ dout ∘ out, in double.
TEST_P(WindowTest, FiniteDifferences) {
  const Sizes s{.B = 2, .H = 2, .H_kv = 1, .N_q = 5, .N_k = 6, .E = 3, .E_v = 4};
  Case<double> c(s);
  const auto dout = Sampler(5).Normal<double>({s.B, s.H, s.N_q, s.E_v});
  const std::vector<int64_t> lengths{6, 4};
  for (const Causal causal : kCausals) {
    const Options<double> options{
        .causal = causal, .key_lengths = Lengths(lengths), .window_left = 2, .window_right = 1};
    const auto loss = [&] {
      const auto out = Attended<double>(c.q, c.k, c.v, options);
      double sum = 0;
      for (int64_t i = 0; i < out.size(); ++i) sum += out[i] * dout[i];
      return sum;
    };
    const auto got = Differentiate<double>(c, options, dout);
    const auto check = [&](Tensor<double>& x, const Tensor<double>& gradient, const char* name) {
      constexpr double h = 1e-5;  // the error is h² times a third derivative, and rounding over h
      for (int64_t i = 0; i < x.size(); ++i) {
        const double before = x[i];
        x[i] = before + h;
        const double above = loss();
        x[i] = before - h;
        const double below = loss();
        x[i] = before;
        ASSERT_NEAR(gradient[i], (above - below) / (2 * h), 1e-8) << name << " at " << i;
      }
    };
    check(c.q, got.dq, "dq"), check(c.k, got.dk, "dk"), check(c.v, got.dv, "dv");
  }
}

TEST_P(WindowTest, WideWindowsHideNothing) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const Case<float> c({.N_q = 40, .N_k = 300, .E = 8, .E_v = 8});
  const auto plain = Attended<float>(c.q, c.k, c.v, {});
  const auto wide = Attended<float>(c.q, c.k, c.v, {.window_left = kMost, .window_right = kMost});
  EXPECT_TRUE(std::ranges::equal(plain.span(), wide.span()));
  const auto dout = Sampler(7).Normal<float>({1, 1, 40, 8});
  const auto a = Differentiate<float>(c, {}, dout),
             b = Differentiate<float>(c, {.window_left = kMost, .window_right = kMost}, dout);
  EXPECT_TRUE(std::ranges::equal(a.dq.span(), b.dq.span()));
}

TEST(WindowErrors, WrongLimitsAreRefused) {
  Tensor<float> x({2, 1, 5, 4}), out({2, 1, 5, 4}), lse({2, 1, 5}), weights({2, 1, 5, 5});
  Tensor<float> dq(x.shape()), dk(x.shape()), dv(x.shape());
  const std::vector<int64_t> good{5, 0}, long_one{5, 6}, negative{-1, 5}, three{1, 2, 3};
  Arena arena;
  const auto run = [&](const Options<float>& options) {
    Attention<float>(x, x, x, options, out, arena, lse);
    AttentionWeights<float>(x, x, options, 0, 5, weights);
    AttentionBackward<float>({x, x, x, out, lse, out, dq, dk, dv}, options, arena);
  };
  EXPECT_NO_THROW(run({.key_lengths = Lengths(good), .window_left = 0, .window_right = 0}));
  EXPECT_THROW(run({.key_lengths = Lengths(long_one)}), Error);
  EXPECT_THROW(run({.key_lengths = Lengths(negative)}), Error);
  EXPECT_THROW(run({.key_lengths = Lengths(three)}), Error);
  EXPECT_THROW(run({.window_left = -2}), Error);
  EXPECT_THROW(run({.window_right = -5}), Error);
}

}  // namespace
}  // namespace qkv::attention
