// Attention with products in bfloat16: through every kernel that can run here (AMX in software where there is none),
// and through the fused call.
#include "qkv/simd/attention/bf16.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

#include "qkv/attention/head_scores.h"
#include "qkv/core/dtype.h"
#include "qkv/core/parallel.h"
#include "tests/attention/cases.h"
#include "tests/simd/amx_trap.h"
#include "tests/support/isas.h"
#include "tests/support/threads.h"

namespace qkv::attention {
namespace {

class Bf16Test : public IsaTest {};
QKV_FOR_ALL_ISAS(Bf16Test);

// Inputs that rounding leaves alone. Queries are rounded after they were multiplied with what makes scores powers of
// two, or with what the soft cap's tanh takes.
Case<float> RoundedCase(const Sizes& sizes, const Options<float>& options) {
  Case<float> c(sizes);
  for (float& x : c.k.span()) x = ToFloat(ToBFloat16(x));
  for (float& x : c.v.span()) x = ToFloat(ToBFloat16(x));
  const float scale = options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<float>(sizes.E));
  const float factor = options.soft_cap == 0 ? scale * std::numbers::log2e_v<float> : scale / options.soft_cap;
  for (float& x : c.q.span()) x = ToFloat(ToBFloat16(x * factor)) / factor;
  return c;
}

// Weights are still rounded, by 2^-8 at most: half the distance from 1 to the next bfloat16. They sum to 1.
double Bf16Tolerance(const Case<float>& c, const Options<float>& options, double sharpness) {
  double v = 0;
  for (const float x : c.v.span()) v = std::max(v, static_cast<double>(std::abs(x)));
  return 0x1p-8 * v / (1 - static_cast<double>(options.dropout)) + Tolerance(c, options, sharpness);
}

Tensor<double> Exact(const Case<float>& c, const Options<float>& options) {
  Tensor<double> exact({c.s.B, c.s.H, c.s.N_q, c.s.E_v});
  const WideOptions<float> wide(options);
  ReferenceAttention(Cast<double>(c.q), Cast<double>(c.k), Cast<double>(c.v), wide.options, exact);
  return exact;
}

void ExpectNear(const Tensor<float>& got, const Tensor<double>& exact, double tolerance, const Sizes& sizes) {
  for (int64_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], exact[i], tolerance) << ToString(sizes) << " at " << i;
}

// The kernels, one head a call, whatever the fused call would choose.
std::vector<const simd::internal::TileKernel*> Kernels() {
  std::vector<const simd::internal::TileKernel*> kernels;
#ifdef __x86_64__
  kernels.push_back(&simd::internal::kBf16Amx);
  if (__builtin_cpu_supports("avx512bf16")) kernels.push_back(&simd::internal::kBf16Avx512);
#endif
  return kernels;
}

void CheckKernels(const Sizes& sizes, const Options<float>& options = {}) {
  const auto c = RoundedCase(sizes, options);
  const auto exact = Exact(c, options);
  simd::AttentionTask<float> task;
  FillScores<float>(c.q, c.k, options, 0, 0, 0, sizes.N_q, task);
  task.v = c.v.data();
  task.v_stride = task.out_stride = task.E_v = sizes.E_v;
  for (const simd::internal::TileKernel* kernel : Kernels()) {
#ifdef __x86_64__
    std::optional<simd::AmxTrap> trap;
    if (kernel == &simd::internal::kBf16Amx) trap.emplace();
#endif
    Tensor<float> out({1, 1, sizes.N_q, sizes.E_v}),
        scratch({simd::AttentionBf16Scratch(sizes.N_q, sizes.E, sizes.E_v)});
    for (float& x : out.span()) x = 77;
    for (float& x : scratch.span()) x = std::numeric_limits<float>::quiet_NaN();
    task.out = out.data();
    simd::AttentionTileBf16(task, *kernel, scratch.data());
    SCOPED_TRACE(kernel->name);
    ExpectNear(out, exact, Bf16Tolerance(c, options, 0), sizes);
  }
}

TEST_P(Bf16Test, EveryKernel) {
  for (const int64_t N_q : {1, 33, 70}) {
    for (const int64_t N_k : {1, 13, 33, 300}) {
      for (const int64_t E : {1, 24, 64, 80, 256})
        CheckKernels({.N_q = N_q, .N_k = N_k, .E = E, .E_v = E == 24 ? 70 : E});
    }
  }
  CheckKernels({.N_q = 300, .N_k = 290, .E = 32, .E_v = 32}, {.causal = Causal::kTopLeft});
  CheckKernels({.N_q = 300, .N_k = 700, .E = 32, .E_v = 32}, {.window_left = 40, .window_right = 300});
  CheckKernels({.N_q = 3, .N_k = 0, .E = 8, .E_v = 8});
  Tensor<float> sinks({1});
  sinks[0] = 1.5f;
  CheckKernels({.N_q = 70, .N_k = 300, .E = 32, .E_v = 32}, {.sinks = sinks});
  CheckKernels({.N_q = 300, .N_k = 700, .E = 32, .E_v = 32}, {.window_left = 40, .window_right = 300, .sinks = sinks});
}

TEST_P(Bf16Test, FusedCallWithOptions) {
  const Sizes s{.B = 2, .H = 4, .H_kv = 2, .N_q = 150, .N_k = 270, .E = 64, .E_v = 40};
  const auto bias = Sampler(2).Normal<float>({1, 4, 150, 270});
  const auto mask = RandomMask({2, 1, 150, 270}, 0.6, 3);
  const auto check = [&](Options<float> options, double sharpness) {
    const auto c = RoundedCase(s, options);
    Tensor<float> full({2, 4, 150, 40}), out({2, 4, 150, 40}), again({2, 4, 150, 40});
    Arena arena;
    Attention<float>(c.q, c.k, c.v, options, full, arena);
    options.bf16 = true;
    Attention<float>(c.q, c.k, c.v, options, out, arena);
    ExpectNear(out, Exact(c, options), Bf16Tolerance(c, options, sharpness), s);
    // Where there is a kernel it was used; where there is none nothing is rounded.
    bool same = true;
    for (int64_t i = 0; i < out.size(); ++i) same &= out[i] == full[i];
    EXPECT_EQ(same, simd::AttentionBf16Kernel() == nullptr);
    const RestoreThreads restore;
    SetNumThreads(NumThreads() + 3);
    Attention<float>(c.q, c.k, c.v, options, again, arena);
    for (int64_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], again[i]);
  };
  check({}, 0);
  check({.causal = Causal::kBottomRight, .soft_cap = 3, .bias = bias, .mask = mask}, 6);
  check({.dropout = 0.2f, .seed = 4}, 0);
  const int64_t lengths[] = {270, 101};
  check({.bias = bias, .key_lengths = View<const int64_t>(lengths, {2}), .window_left = 30, .window_right = 3}, 6);
}

TEST_P(Bf16Test, FewQueriesAreMultipliedInFloat) {
  const auto same = [](const Tensor<float>& a, const Tensor<float>& b) {
    return std::ranges::equal(a.span(), b.span());
  };
  const auto check = [&](const Sizes& s, bool few) {
    SCOPED_TRACE(ToString(s));
    const Case<float> c(s);
    const auto dout = Sampler(9).Normal<float>({s.B, s.H, s.N_q, s.E_v});
    struct Result {
      Tensor<float> out, lse, dq, dk, dv;
    };
    const auto run = [&](bool bf16) {
      Result r{Tensor<float>(dout.shape()), Tensor<float>({s.B, s.H, s.N_q}), Tensor<float>(c.q.shape()),
               Tensor<float>(c.k.shape()), Tensor<float>(c.v.shape())};
      Arena arena;
      Attention<float>(c.q, c.k, c.v, {.bf16 = bf16}, r.out, arena, r.lse);
      AttentionBackward<float>({c.q, c.k, c.v, r.out, r.lse, dout, r.dq, r.dk, r.dv}, {.bf16 = bf16}, arena);
      return r;
    };
    const Result full = run(false), low = run(true);
    const bool exact = few || simd::AttentionBf16Kernel() == nullptr;
    EXPECT_EQ(same(low.out, full.out), exact);
    EXPECT_EQ(same(low.lse, full.lse), exact);
    EXPECT_EQ(same(low.dq, full.dq), exact);
    EXPECT_EQ(same(low.dk, full.dk), exact);
    EXPECT_EQ(same(low.dv, full.dv), exact);
  };
  for (const int64_t N_k : {40, 1500}) {  // in one part, and cut along the keys
    for (const int64_t N_q : {1, 3, 32}) check({.H = 2, .N_q = N_q, .N_k = N_k, .E = 24, .E_v = 24}, true);
    check({.H = 2, .N_q = 33, .N_k = N_k, .E = 24, .E_v = 24}, false);
    check({.H = 8, .H_kv = 2, .N_q = 1, .N_k = N_k, .E = 24, .E_v = 24}, true);  // queries that share their keys
  }
}

TEST_P(Bf16Test, MaskedRowsAndNaN) {
  constexpr int64_t N = 40, N_k = 50;
  Case<float> c({.B = 1, .H = 1, .H_kv = 1, .N_q = N, .N_k = N_k, .E = 8, .E_v = 8});
  c.q[7 * 8] = std::numeric_limits<float>::quiet_NaN();
  Tensor<bool> mask({1, 1, N, N_k});
  for (int64_t i = 0; i < mask.size(); ++i) mask[i] = i / N_k != 3;
  Tensor<float> out({1, 1, N, 8}), lse({1, 1, N});
  Arena arena;
  Attention<float>(c.q, c.k, c.v, {.mask = mask, .bf16 = true}, out, arena, lse);
  for (int64_t i = 0; i < out.size(); ++i) ASSERT_EQ(std::isnan(out[i]), i / 8 == 7) << i;
  for (int64_t e = 0; e < 8; ++e) EXPECT_EQ(out[3 * 8 + e], 0);
  EXPECT_EQ(lse[3], -std::numeric_limits<float>::infinity());
}

// Gradients, and how far those of the bfloat16 products may be from the exact ones. Keys, values and dout are left
// alone by the rounding, and so are the queries of the scores; what else is multiplied is off by 2^-8 of itself at
// most: weights P for dv, gradients of scores dS and queries for dk, dS for dq. Also off are P and dS, by the errors of
// their float arithmetic, and delta by that of `out`, whose weights were rounded.
struct Expected {
  Expected(const Case<float>& c, const Options<float>& options, const Tensor<float>& dout, double sharpness);
  Tensor<double> dq, dk, dv, dscores;  // dscores: [B, H, N_q, N_k], before cap and scale
  Tensor<double> dq_bound, dk_bound, dv_bound, dscores_bound;
};

Expected::Expected(const Case<float>& c, const Options<float>& options, const Tensor<float>& dout, double sharpness)
    : dq(c.q.shape()),
      dk(c.k.shape()),
      dv(c.v.shape()),
      dscores({c.s.B, c.s.H, c.s.N_q, c.s.N_k}),
      dq_bound(dq.shape()),
      dk_bound(dk.shape()),
      dv_bound(dv.shape()),
      dscores_bound(dscores.shape()) {
  const auto [B, H, H_kv, N_q, N_k, E, E_v] = c.s;
  const auto q = Cast<double>(c.q), k = Cast<double>(c.k), v = Cast<double>(c.v), g = Cast<double>(dout);
  // A bias for each score, so that its gradient is that of the scores.
  WideOptions<float> wide(options);
  Tensor<double> bias(dscores.shape()), weights(dscores.shape()), out(g.shape());
  for (int64_t b = 0, n = 0; b < B && !options.bias.empty(); ++b) {
    for (int64_t h = 0; h < H; ++h) {
      for (int64_t i = 0; i < N_q; ++i) {
        const auto index = [&](int axis, int64_t at) { return options.bias.dim(axis) == 1 ? 0 : at; };
        for (int64_t j = 0; j < N_k; ++j) bias[n++] = *options.bias.at(index(0, b), index(1, h), index(2, i), j);
      }
    }
  }
  wide.options.bias = bias;
  ReferenceAttention(q, k, v, wide.options, out, weights);
  ReferenceAttentionBackward({q, k, v, {}, {}, g, dq, dk, dv, dscores}, wide.options);

  constexpr double kBf16 = 0x1p-8, u = UnitRoundoff<float>();
  const double scale = options.scale != 0 ? std::abs(options.scale) : 1 / std::sqrt(static_cast<double>(E));
  const double kept = 1 / (1 - static_cast<double>(options.dropout));
  const double score = GreatestNorm(c.q, E) * GreatestNorm(c.k, E) * scale;
  const double dout_v = GreatestNorm(dout, E_v) * GreatestNorm(c.v, E_v);
  // Relatively, of a weight; the log-sum-exp is at most the score and log N_k. Sums of so many follow.
  const double weight = DotTolerance<float>(E, score) +
                        16 * u * (1 + 2 * (score + sharpness) + std::log(static_cast<double>(N_k))) +
                        DotTolerance<float>(std::max(N_q * H / H_kv, N_k), 1);
  const double dp = kept * (2 * DotTolerance<float>(E_v, dout_v) + (DotTolerance<float>(N_k, 1) + 2 * weight) * dout_v);
  for (int64_t bh = 0; bh < B * H; ++bh) {
    const int64_t kv = bh / H * H_kv + bh % H / (H / H_kv);
    for (int64_t i = 0; i < N_q; ++i) {
      const int64_t row = bh * N_q + i;
      double delta = 0;
      for (int64_t j = 0; j < N_k; ++j) {
        for (int64_t e = 0; e < E_v; ++e) {
          delta += kept * weights[row * N_k + j] * std::abs(v[(kv * N_k + j) * E_v + e] * g[row * E_v + e]) * kBf16;
        }
      }
      for (int64_t j = 0; j < N_k; ++j) {
        const double p = kept * weights[row * N_k + j], ds = std::abs(dscores[row * N_k + j]);
        const int64_t key = kv * N_k + j;
        const double error = dscores_bound[row * N_k + j] = weight * ds + p * (dp + delta);
        for (int64_t e = 0; e < E; ++e) {
          dq_bound[row * E + e] += scale * (error + kBf16 * (ds + error)) * std::abs(k[key * E + e]);
          dk_bound[key * E + e] += scale * (error + kBf16 * (2 + kBf16) * (ds + error)) * std::abs(q[row * E + e]);
        }
        for (int64_t e = 0; e < E_v; ++e) {
          dv_bound[key * E_v + e] += (kBf16 + 2 * weight) * p * std::abs(g[row * E_v + e]);
        }
      }
    }
  }
}

void ExpectWithin(const Tensor<float>& got, const Tensor<double>& exact, const Tensor<double>& bound,
                  const char* name) {
  for (int64_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], exact[i], bound[i] + std::numeric_limits<float>::min()) << name << " at " << i;
  }
}

Tensor<float> RoundedDout(const Sizes& s) {
  auto dout = Sampler(99).Normal<float>({s.B, s.H, s.N_q, s.E_v});
  for (float& x : dout.span()) x = ToFloat(ToBFloat16(x));
  return dout;
}

Tensor<float> Filled(const Shape& shape, float value) {
  Tensor<float> x(shape);
  std::fill(x.span().begin(), x.span().end(), value);
  return x;
}

// All heads share their keys.
void CheckGradientKernels(const Sizes& s, const Options<float>& options = {}) {
  const auto c = RoundedCase(s, options);
  const auto dout = RoundedDout(s);
  const Expected expected(c, options, dout, 0);
  Tensor<float> out(dout.shape()), lse({1, s.H, s.N_q}), delta({s.H, s.N_q});
  Arena arena;
  Attention<float>(c.q, c.k, c.v, options, out, arena, lse);
  simd::AttentionDelta<float>(out.data(), s.E_v, dout.data(), s.E_v, s.H * s.N_q, s.E_v, delta.data());
  for (const simd::internal::TileKernel* kernel : Kernels()) {
#ifdef __x86_64__
    std::optional<simd::AmxTrap> trap;
    if (kernel == &simd::internal::kBf16Amx) trap.emplace();
#endif
    auto dq = Filled(c.q.shape(), 77), dk = Filled(c.k.shape(), 77), dv = Filled(c.v.shape(), 77);
    std::vector<simd::AttentionGradientTask<float>> heads(static_cast<size_t>(s.H));
    for (int64_t h = 0; h < s.H; ++h) {
      auto& head = heads[static_cast<size_t>(h)];
      FillScores<float>(c.q, c.k, options, 0, h, 0, s.N_q, head);
      head.v = c.v.data(), head.lse = lse.data() + h * s.N_q, head.dout = dout.data() + h * s.N_q * s.E_v,
      head.delta = delta.data() + h * s.N_q;
      head.dq = dq.data() + h * s.N_q * s.E, head.dk = dk.data(), head.dv = dv.data();
      head.lse_stride = 1, head.dq_stride = head.dk_stride = s.E;
      head.v_stride = head.dv_stride = head.dout_stride = head.E_v = s.E_v;
    }
    auto scratch = Filled({simd::AttentionGradientBf16Scratch(s.E, s.E_v)}, std::numeric_limits<float>::quiet_NaN());
    const int64_t blocks = simd::AttentionGradientKeyBlocks(s.N_k, simd::kAttentionGradientKeysBf16);
    simd::AttentionGradientBf16(heads, {.key_block_end = blocks}, *kernel, scratch.data());
    SCOPED_TRACE(fmt::format("{} {}", kernel->name, ToString(s)));
    ExpectWithin(dq, expected.dq, expected.dq_bound, "dq");
    ExpectWithin(dk, expected.dk, expected.dk_bound, "dk");
    ExpectWithin(dv, expected.dv, expected.dv_bound, "dv");
  }
}

TEST_P(Bf16Test, EveryKernelOfTheGradient) {
  for (const int64_t N_q : {1, 33, 70}) {
    for (const int64_t N_k : {1, 13, 45}) {
      for (const int64_t E : {1, 24, 64, 80, 256}) {
        CheckGradientKernels({.H = 2, .N_q = N_q, .N_k = N_k, .E = E, .E_v = E == 24 ? 70 : E});
      }
    }
  }
  CheckGradientKernels({.N_q = 270, .N_k = 300, .E = 32, .E_v = 32});
  CheckGradientKernels({.N_q = 280, .N_k = 270, .E = 8, .E_v = 8}, {.causal = Causal::kTopLeft});
  CheckGradientKernels({.N_q = 600, .N_k = 600, .E = 8, .E_v = 8}, {.window_left = 20, .window_right = 7});
}

TEST_P(Bf16Test, GradientWithOptions) {
  const Sizes s{.B = 2, .H = 4, .H_kv = 2, .N_q = 150, .N_k = 270, .E = 24, .E_v = 40};
  const auto bias = Sampler(2).Normal<float>({1, 4, 150, 270}),
             bias_of_all = Sampler(5).Normal<float>({2, 4, 150, 270});
  auto mask = RandomMask({2, 1, 150, 270}, 0.6, 3);
  std::fill_n(mask.data() + 3 * 270, 270, false);  // a row that sees nothing: its bounds are zero
  const auto dout = RoundedDout(s);
  const auto check = [&](Options<float> options, double sharpness) {
    const auto c = RoundedCase(s, options);
    Tensor<float> out(dout.shape()), lse({2, 4, 150});
    struct Result {
      explicit Result(const Case<float>& of, const Options<float>& o)
          : dq(Filled(of.q.shape(), 77)),
            dk(Filled(of.k.shape(), 77)),
            dv(Filled(of.v.shape(), 77)),
            dbias(Filled(o.bias.empty() ? Shape{0} : o.bias.shape(), 77)) {}
      bool operator==(const Result& other) const {
        return std::ranges::equal(dq.span(), other.dq.span()) && std::ranges::equal(dk.span(), other.dk.span()) &&
               std::ranges::equal(dv.span(), other.dv.span()) && std::ranges::equal(dbias.span(), other.dbias.span());
      }
      Tensor<float> dq, dk, dv, dbias;
    };
    Arena arena;
    const auto run = [&] {
      Result result(c, options);
      BackwardTensors<float> x{c.q, c.k, c.v, out, lse, dout, result.dq, result.dk, result.dv};
      if (!options.bias.empty()) x.dbias = result.dbias;
      AttentionBackward(x, options, arena);
      return result;
    };
    options.bf16 = true;
    Attention<float>(c.q, c.k, c.v, options, out, arena, lse);
    const Result got = run();
    const RestoreThreads restore;
    // With one thread a head is one task, with many they take its blocks of keys in turns.
    for (const int count : {1, 3, 16}) {
      SetNumThreads(count);
      EXPECT_TRUE(run() == got) << count << " threads";
    }
    // Where there is a kernel it was used; where there is none nothing is rounded.
    options.bf16 = false;
    EXPECT_EQ(run() == got, simd::AttentionBf16Kernel() == nullptr);

    Expected expected(c, options, dout, sharpness);
    ExpectWithin(got.dq, expected.dq, expected.dq_bound, "dq");
    ExpectWithin(got.dk, expected.dk, expected.dk_bound, "dk");
    ExpectWithin(got.dv, expected.dv, expected.dv_bound, "dv");
    // What is shared by the batch is the sum.
    const int64_t n = got.dbias.size();
    for (int64_t i = n; n > 0 && i < expected.dscores.size(); ++i) {
      expected.dscores[i % n] += expected.dscores[i], expected.dscores_bound[i % n] += expected.dscores_bound[i];
    }
    ExpectWithin(got.dbias, expected.dscores, expected.dscores_bound, "dbias");
  };
  check({}, 0);
  check({.causal = Causal::kBottomRight, .soft_cap = 3, .bias = bias, .mask = mask}, 6);
  check({.bias = bias_of_all, .dropout = 0.2f, .seed = 4}, 6);
  check({.causal = Causal::kTopLeft, .dropout = 0.2f, .seed = 5}, 0);
  const int64_t lengths[] = {270, 101};
  check({.bias = bias, .key_lengths = View<const int64_t>(lengths, {2}), .window_left = 30, .window_right = 3}, 6);
}

}  // namespace
}  // namespace qkv::attention
