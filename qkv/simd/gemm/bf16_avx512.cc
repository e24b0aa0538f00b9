// bfloat16 products with AVX-512 BF16: vdpbf16ps adds two products, each rounded to nearest even in float, to a sum in
// float. Regardless of MXCSR, it treats denormal inputs as zero and flushes denormal results; weights, activations and
// sums have no meaningful values below 2^-126.
#ifdef __x86_64__
#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "hwy/base.h"
#include "qkv/simd/gemm/row_kernel.h"
#include "qkv/simd/gemm/tile_kernel.h"
#include "qkv/simd/gemm/tile_prefetch.h"

HWY_PUSH_ATTRIBUTES("avx512f,avx512bf16")
namespace qkv::simd::internal {
namespace {

struct Dot {
  using Sum = __m512;
  using Operand = __m512i;
  using Element = float;
  static constexpr int kRows = 14, kVectors = 2, kFold = 1, kChunk = 32;

  static Operand Broadcast(int32_t group) { return _mm512_set1_epi32(group); }
  static Sum Add(Sum sum, const Operand (&a)[1], const Operand (&b)[1]) {
    return _mm512_dpbf16_ps(sum, (__m512bh)a[0], (__m512bh)b[0]);
  }
};

}  // namespace
}  // namespace qkv::simd::internal
#include "qkv/simd/gemm/tile_loop-inl.h"

namespace qkv::simd::internal {

constinit const TileKernel kBf16Avx512 = {
    .name = "avx512_bf16", .panel = 32, .rows = Dot::kRows, .group = 2, .chunk = Dot::kChunk, .multiply = MultiplyTile};
constinit const RowMultiply kBf16Avx512Row = MultiplyRow;

}  // namespace qkv::simd::internal
HWY_POP_ATTRIBUTES
#endif  // __x86_64__
