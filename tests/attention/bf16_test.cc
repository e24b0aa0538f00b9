// Attention with products in bfloat16: through every kernel that can run here (AMX in software where there is none),
// and through the fused call.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

#include "qkv/core/dtype.h"
#include "qkv/core/parallel.h"
#include "qkv/simd/attention_bf16.h"
#include "tests/attention/cases.h"
#include "tests/simd/amx_trap.h"
#include "tests/support/isas.h"

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

void CheckKernels(const Sizes& sizes, bool causal = false) {
  const Options<float> options{.causal = causal ? Causal::kTopLeft : Causal::kNone};
  const auto c = RoundedCase(sizes, options);
  const auto exact = Exact(c, options);
  simd::AttentionTask<float> task;
  task.q = c.q.data(), task.k = c.k.data(), task.v = c.v.data();
  task.q_stride = task.k_stride = task.E = sizes.E;
  task.v_stride = task.out_stride = task.E_v = sizes.E_v;
  task.rows = sizes.N_q, task.keys = sizes.N_k;
  task.scale = 1 / std::sqrt(static_cast<float>(sizes.E));
  if (causal) task.visible = 1;
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
      for (const int64_t E : {1, 24, 64, 80}) CheckKernels({.N_q = N_q, .N_k = N_k, .E = E, .E_v = E == 24 ? 70 : E});
    }
  }
  CheckKernels({.N_q = 300, .N_k = 290, .E = 32, .E_v = 32}, true);
  CheckKernels({.N_q = 3, .N_k = 0, .E = 8, .E_v = 8});
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
    const int threads = NumThreads();
    SetNumThreads(threads + 3);
    Attention<float>(c.q, c.k, c.v, options, again, arena);
    SetNumThreads(threads);
    for (int64_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], again[i]);
  };
  check({}, 0);
  check({.causal = Causal::kBottomRight, .soft_cap = 3, .bias = bias, .mask = mask}, 6);
  check({.dropout = 0.2f, .seed = 4}, 0);
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

}  // namespace
}  // namespace qkv::attention
