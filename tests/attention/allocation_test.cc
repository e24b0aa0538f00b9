// The second call of everything that a forward pass calls allocates nothing.
#include <gtest/gtest.h>

#include "qkv/attention/attention.h"
#include "qkv/core/parallel.h"
#include "qkv/simd/gemm/gemm.h"
#include "qkv/simd/gemm/matmul.h"
#include "tests/support/allocations.h"
#include "tests/support/isas.h"
#include "tests/support/sampler.h"
#include "tests/support/threads.h"

namespace qkv::attention {
namespace {

class AllocationTest : public IsaTest {};
QKV_FOR_ALL_ISAS(AllocationTest);

// After the first calls, which size the scratch: none in any of many.
template <class F>
void ExpectNoAllocation(F f) {
  for (int i = 0; i < 3; ++i) f();
  const int64_t before = g_allocations.load();
  for (int i = 0; i < 20; ++i) f();
  EXPECT_EQ(g_allocations.load() - before, 0);
}

TEST_P(AllocationTest, Gemm) {
  Sampler sampler(1);
  const auto x = sampler.Normal<float>({50, 500}), w = sampler.Normal<float>({300, 500});
  Tensor<float> y({50, 300});
  for (const auto precision : {simd::Precision::kFloat32, simd::Precision::kBfloat16, simd::Precision::kInt8}) {
    const simd::PackedMatrix<float> packed(w.view(), precision);
    ExpectNoAllocation([&] { simd::Gemm<float>(x, packed, {.activation = simd::Activation::kGelu}, y); });
  }
}

// Forward and gradients of a linear layer, the gradient of few weights from many rows among them.
TEST_P(AllocationTest, MatMul) {
  Sampler sampler(1);
  const auto x = sampler.Normal<float>({3500, 20}), w = sampler.Normal<float>({30, 20});
  Tensor<float> y({3500, 30}), dx({3500, 20}), dw({30, 20});
  ExpectNoAllocation([&] {
    simd::MatMul<float>(x, simd::Transposed(w.view()), y);
    simd::MatMul<float>(y, w, dx);
    simd::MatMul<float>(simd::Transposed(y.view()), x, dw, true);
  });
}

TEST_P(AllocationTest, AttentionAndWeights) {
  Sampler sampler(1);
  const auto q = sampler.Normal<float>({2, 3, 40, 24}), k = sampler.Normal<float>({2, 3, 300, 24});
  Tensor<float> out({2, 3, 40, 24}), weights({2, 3, 1, 300});
  Arena arena;
  ExpectNoAllocation([&] {
    Attention<float>(q, k, k, {}, out, arena);
    arena.Reset();
  });
  ExpectNoAllocation([&] { AttentionWeights<float>(q, k, {}, 0, 1, weights); });
}

TEST_P(AllocationTest, AttentionBackward) {
  Sampler sampler(1);
  const RestoreThreads restore;
  SetNumThreads(2);
  for (const int64_t H : {1, 2}) {  // blocks of keys in turns, and one head a thread
    const auto q = sampler.Normal<float>({1, H, 40, 24}), k = sampler.Normal<float>({1, H, 300, 24});
    Tensor<float> out({1, H, 40, 24}), lse({1, H, 40}), dq({1, H, 40, 24}), dk({1, H, 300, 24}), dv({1, H, 300, 24});
    Arena arena;
    ExpectNoAllocation([&] {
      Attention<float>(q, k, k, {}, out, arena, lse);
      AttentionBackward<float>({q, k, k, out, lse, out, dq, dk, dv}, {}, arena);
      arena.Reset();
    });
  }
}

}  // namespace
}  // namespace qkv::attention
