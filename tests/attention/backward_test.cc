// The gradient of attention: against the double-precision oracle and finite differences, for every option and layout;
// the same bits whatever the threads.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "qkv/core/parallel.h"
#include "tests/attention/gradient_cases.h"
#include "tests/support/isas.h"
#include "tests/support/threads.h"

namespace qkv::attention {
namespace {

class BackwardTest : public IsaTest {
 protected:
  RestoreThreads restore_;
};
QKV_FOR_ALL_ISAS(BackwardTest);

TEST_P(BackwardTest, ManyShapes) {
  for (const int64_t N : {1, 2, 5, 13, 16, 33, 65, 130}) {
    for (const int64_t E : {1, 3, 16, 33, 64, 80, 130, 256}) {
      const Sizes sizes{.B = 2, .H = 1, .H_kv = 1, .N_q = N, .N_k = N, .E = E, .E_v = E};
      CheckGradient(Case<float>(sizes));
      CheckGradient(Case<double>(sizes));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(BackwardTest, OtherCountsOfKeysAndWidthsOfValues) {
  for (const int64_t N_q : {1, 7, 70}) {
    for (const int64_t N_k : {1, 9, 300}) {
      for (const int64_t E_v : {1, 5, 16, 70}) {
        const Sizes sizes{.B = 1, .H = 2, .H_kv = 1, .N_q = N_q, .N_k = N_k, .E = 20, .E_v = E_v};
        CheckGradient(Case<float>(sizes));
        CheckGradient(Case<double>(sizes));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(BackwardTest, GroupedAndMultiQueryHeads) {
  for (const int64_t H_kv : {1, 2, 3, 6}) {
    const Sizes sizes{.B = 2, .H = 6, .H_kv = H_kv, .N_q = 21, .N_k = 34, .E = 16, .E_v = 16};
    CheckGradient(Case<float>(sizes));
    CheckGradient(Case<double>(sizes));
  }
}

TEST_P(BackwardTest, ManyBlocks) {
  CheckGradient(Case<float>({.B = 1, .H = 1, .H_kv = 1, .N_q = 600, .N_k = 700, .E = 64, .E_v = 64}));
  CheckGradient(Case<float>({.B = 1, .H = 3, .H_kv = 3, .N_q = 197, .N_k = 197, .E = 64, .E_v = 64}));
}

TEST_P(BackwardTest, Combinations) {
  const Sizes s{.B = 2, .H = 4, .H_kv = 2, .N_q = 19, .N_k = 23, .E = 8, .E_v = 6};
  uint64_t seed = 10;
  for (const Causal causal : {Causal::kNone, Causal::kTopLeft, Causal::kBottomRight}) {
    for (const double soft_cap : {0, 2}) {
      for (int axes = -1; axes < 8; ++axes) {
        const int mask_axes = static_cast<int>(seed % 9) - 1;
        const auto shape = [&](int a) { return Shape({a & 1 ? s.B : 1, a & 2 ? s.H : 1, a & 4 ? s.N_q : 1, s.N_k}); };
        ++seed;
        const auto run = [&]<typename T>(T) {
          Tensor<T> bias;
          Tensor<bool> mask;
          Options<T> options{.scale = T(0.4), .causal = causal, .soft_cap = static_cast<T>(soft_cap)};
          if (seed % 2 == 0) options.dropout = T(0.3), options.seed = seed;
          if (axes >= 0) bias = Sampler(seed).Normal<T>(shape(axes)), options.bias = bias;
          if (mask_axes >= 0) mask = RandomMask(shape(mask_axes), 0.6, seed), options.mask = mask;
          SCOPED_TRACE(
              fmt::format("causal {} cap {} bias {} mask {}", static_cast<int>(causal), soft_cap, axes, mask_axes));
          CheckGradient(Case<T>(s), options, 6);
        };
        run(0.f), run(0.0);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(BackwardTest, CausalOverManyBlocks) {
  for (const auto& [N_q, N_k] : {std::pair<int64_t, int64_t>{300, 300}, {150, 400}, {400, 150}, {1, 300}, {300, 1}}) {
    for (const Causal causal : {Causal::kTopLeft, Causal::kBottomRight}) {
      const Sizes s{.B = 1, .H = 2, .H_kv = 1, .N_q = N_q, .N_k = N_k, .E = 8, .E_v = 8};
      CheckGradient(Case<float>(s), {.causal = causal});
      CheckGradient(Case<double>(s), {.causal = causal});
    }
  }
}

// Every option at once, by central differences of Σ dout ∘ out, in double.
TEST_P(BackwardTest, FiniteDifferences) {
  const Sizes s{.B = 2, .H = 2, .H_kv = 1, .N_q = 5, .N_k = 6, .E = 3, .E_v = 4};
  Case<double> c(s);
  const auto dout = Sampler(5).Normal<double>({s.B, s.H, s.N_q, s.E_v});
  auto bias = Sampler(6).Normal<double>({1, s.H, s.N_q, s.N_k});
  const auto mask = RandomMask({s.B, 1, s.N_q, s.N_k}, 0.7, 7);
  for (const bool with_options : {false, true}) {
    Options<double> options;
    if (with_options) {
      options = {.scale = 0.8, .causal = Causal::kBottomRight, .soft_cap = 1.5, .bias = bias, .mask = mask};
      options.dropout = 0.25, options.seed = 3;
    }
    const auto loss = [&] {
      Tensor<double> out({s.B, s.H, s.N_q, s.E_v});
      Arena arena;
      Attention<double>(c.q, c.k, c.v, options, out, arena);
      double sum = 0;
      for (int64_t i = 0; i < out.size(); ++i) sum += out[i] * dout[i];
      return sum;
    };
    const auto got = Differentiate<double>(c, options, dout);
    const auto check = [&](Tensor<double>& x, const Tensor<double>& gradient, const char* name) {
      // The error is h² times a third derivative, and rounding over h.
      constexpr double h = 1e-5;
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
    if (with_options) check(bias, got.dbias, "dbias");
  }
}

TEST_P(BackwardTest, MaskedRowsAndInfiniteBiases) {
  constexpr int64_t N = 40, N_k = 300;
  const Case<float> c({.B = 1, .H = 1, .H_kv = 1, .N_q = N, .N_k = N_k, .E = 16, .E_v = 16});
  Tensor<bool> mask({1, 1, N, N_k});
  Tensor<float> bias({1, 1, N, N_k});
  for (int64_t i = 0; i < N; ++i) {
    for (int64_t j = 0; j < N_k; ++j) {
      mask[i * N_k + j] = i % 3 != 0 && (i % 3 != 1 || j > 280) && j != 200;
      bias[i * N_k + j] = mask[i * N_k + j] ? 0 : -std::numeric_limits<float>::infinity();
    }
  }
  const auto dout = Sampler(3).Normal<float>({1, 1, N, 16});
  for (const bool additive : {false, true}) {
    Options<float> options;
    if (additive) {
      options.bias = bias;
    } else {
      options.mask = mask;
    }
    CheckGradient(c, options);
    const auto got = Differentiate<float>(c, options, dout);
    for (int64_t e = 0; e < 16; ++e) {
      for (int64_t i = 0; i < N; i += 3) EXPECT_EQ(got.dq[i * 16 + e], 0);
      EXPECT_EQ(got.dk[200 * 16 + e], 0);
      EXPECT_EQ(got.dv[200 * 16 + e], 0);
    }
    for (int64_t j = 0; j < N_k && additive; ++j) EXPECT_EQ(got.dbias[j], 0);
  }
}

// One product's [B, N, 3, H, E] in and out.
TEST_P(BackwardTest, StridedTensorsGiveTheSameBits) {
  constexpr int64_t B = 2, H = 3, N = 150, E = 40;
  const auto fused = Sampler(3).Normal<float>({B, N, 3, H, E});
  const auto dout = Sampler(4).Normal<float>({B, N, H, E});
  const auto heads_first = [](auto* data) { return View(data, {B, H, N, E}, {N * H * E, E, H * E, 1}); };
  const auto part = [](auto* data, int64_t which) {
    return View(data + which * H * E, {B, H, N, E}, {N * 3 * H * E, E, 3 * H * E, 1});
  };
  const auto dense = [](View<const float> x) {
    Tensor<float> copy({B, H, N, E});
    int64_t i = 0;
    for (int64_t b = 0; b < B; ++b) {
      for (int64_t h = 0; h < H; ++h) {
        for (int64_t n = 0; n < N; ++n) {
          for (int64_t e = 0; e < E; ++e) copy[i++] = *x.at(b, h, n, e);
        }
      }
    }
    return copy;
  };
  Case<float> c({.B = B, .H = H, .H_kv = H, .N_q = N, .N_k = N, .E = E, .E_v = E});
  c.q = dense(part(fused.data(), 0)), c.k = dense(part(fused.data(), 1)), c.v = dense(part(fused.data(), 2));
  const auto expected = Differentiate<float>(c, {}, dense(heads_first(dout.data())));

  Tensor<float> out({B, N, H, E}), lse({B, N, H}), gradient({B, N, 3, H, E});
  const View<float> lse_view(lse.data(), {B, H, N}, {N * H, 1, H});
  Arena arena;
  const auto q = part(fused.data(), 0), k = part(fused.data(), 1), v = part(fused.data(), 2);
  Attention<float>(q, k, v, {}, heads_first(out.data()), arena, lse_view);
  AttentionBackward<float>({q, k, v, heads_first(out.data()), lse_view, heads_first(dout.data()),
                            part(gradient.data(), 0), part(gradient.data(), 1), part(gradient.data(), 2)},
                           {}, arena);
  const Tensor<float>* parts[] = {&expected.dq, &expected.dk, &expected.dv};
  for (int64_t which = 0; which < 3; ++which) {
    const auto got = dense(part(gradient.data(), which));
    for (int64_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], (*parts[which])[i]) << which << " at " << i;
  }
}

// One head a thread, or blocks of keys in turns: the number of threads decides, and changes no bit.
TEST_P(BackwardTest, ThreadsDoNotChangeTheResult) {
  for (const int64_t bias_heads : {-1, 1, 4}) {
    const Sizes s{.B = 1, .H = 4, .H_kv = 2, .N_q = 300, .N_k = 290, .E = 24, .E_v = 24};
    const Case<float> c(s);
    const auto dout = Sampler(4).Normal<float>({s.B, s.H, s.N_q, s.E_v});
    Options<float> options{.causal = Causal::kTopLeft};
    Tensor<float> bias;
    if (bias_heads > 0) bias = Sampler(2).Normal<float>({1, bias_heads, s.N_q, s.N_k}), options.bias = bias;
    SetNumThreads(1);
    const auto expected = Differentiate<float>(c, options, dout);
    for (const int threads : {1, 2, 3, 16}) {
      SetNumThreads(threads);
      const auto got = Differentiate<float>(c, options, dout);
      for (int64_t i = 0; i < got.dq.size(); ++i) ASSERT_EQ(got.dq[i], expected.dq[i]) << threads;
      for (int64_t i = 0; i < got.dk.size(); ++i) ASSERT_EQ(got.dk[i], expected.dk[i]) << threads;
      for (int64_t i = 0; i < got.dv.size(); ++i) ASSERT_EQ(got.dv[i], expected.dv[i]) << threads;
      for (int64_t i = 0; i < got.dbias.size(); ++i) ASSERT_EQ(got.dbias[i], expected.dbias[i]) << threads;
    }
  }
}

TEST_P(BackwardTest, MemoryGrowsWithRowsNotTheirSquare) {
  SetNumThreads(2);
  const auto peak = [](int64_t N) {
    const Case<float> c({.B = 1, .H = 1, .H_kv = 1, .N_q = N, .N_k = N, .E = 8, .E_v = 8});
    Tensor<float> out({1, 1, N, 8}), lse({1, 1, N});
    Gradients<float> g(c, {});
    Arena forward, backward;
    Attention<float>(c.q, c.k, c.v, {}, out, forward, lse);
    AttentionBackward<float>({c.q, c.k, c.v, out, lse, out, g.dq, g.dk, g.dv}, {}, backward);
    return backward.peak_bytes();
  };
  // A sum for each query, a count for each block of keys.
  EXPECT_LE(peak(2048), peak(512) + 1536 * sizeof(float) + 1536 / 128 * sizeof(int64_t) + 64);
}

// As many keys as a slide has tiles: 512 blocks, which two threads take in turns.
TEST_P(BackwardTest, ASlideOf65536Tokens) {
  const Sizes s{.B = 1, .H = 1, .H_kv = 1, .N_q = 20, .N_k = 65536, .E = 16, .E_v = 16};
  SetNumThreads(2);
  const Case<float> c(s);
  Case<double> wide(s);
  wide.q = Cast<double>(c.q), wide.k = Cast<double>(c.k), wide.v = Cast<double>(c.v);
  const auto dout = Sampler(4).Normal<float>({s.B, s.H, s.N_q, s.E_v});
  const auto got = Differentiate<float>(c, {}, dout);
  const auto exact = Exact(wide, {}, Cast<double>(dout));
  const Bounds<float> bounds(c, {}, dout, 0);
  ExpectNear(got.dq, exact.dq, bounds.dq, "dq");
  ExpectNear(got.dk, exact.dk, bounds.dk, "dk");
  ExpectNear(got.dv, exact.dv, bounds.dv, "dv");
}

TEST_P(BackwardTest, NothingToDo) {
  const Case<float> no_queries({.B = 1, .H = 1, .H_kv = 1, .N_q = 0, .N_k = 3, .E = 4, .E_v = 4});
  const auto keys = Differentiate<float>(no_queries, {}, Tensor<float>({1, 1, 0, 4}));
  for (int64_t i = 0; i < 12; ++i) EXPECT_EQ(keys.dk[i] + keys.dv[i], 0);
  const Case<float> no_keys({.B = 1, .H = 1, .H_kv = 1, .N_q = 3, .N_k = 0, .E = 4, .E_v = 4});
  const auto queries = Differentiate<float>(no_keys, {}, Tensor<float>({1, 1, 3, 4}));
  for (int64_t i = 0; i < 12; ++i) EXPECT_EQ(queries.dq[i], 0);
}

TEST_P(BackwardTest, WrongShapesAreRefused) {
  Tensor<float> q({2, 4, 5, 8}), k({2, 2, 6, 8}), v({2, 2, 6, 3}), out({2, 4, 5, 3}), lse({2, 4, 5});
  Tensor<float> dq({2, 4, 5, 8}), dk({2, 2, 6, 8}), dv({2, 2, 6, 3}), bias({1, 1, 5, 6}), dbias({1, 4, 5, 6});
  Arena arena;
  const BackwardTensors<float> good{q, k, v, out, lse, out, dq, dk, dv};
  AttentionBackward(good, {}, arena);
  for (const auto member : {&BackwardTensors<float>::out, &BackwardTensors<float>::dout, &BackwardTensors<float>::lse,
                            &BackwardTensors<float>::v}) {
    auto bad = good;
    bad.*member = q;
    EXPECT_THROW(AttentionBackward(bad, {}, arena), Error);
  }
  auto bad = good;
  bad.dk = dq;
  EXPECT_THROW(AttentionBackward(bad, {}, arena), Error);
  bad = good;
  bad.dbias = dbias;
  EXPECT_THROW(AttentionBackward(bad, {.bias = bias}, arena), Error);
  EXPECT_THROW(AttentionBackward(bad, {}, arena), Error);
}

}  // namespace
}  // namespace qkv::attention
