// int8 products with AVX-512 VNNI: vpdpbusd sums four products in int32 without intermediate saturation. 14 × 2
// accumulators, two vectors of B, one broadcast of A and one spare fill the 32 registers. The instruction can broadcast
// only its signed operand, B, from memory; A is broadcast by a separate load, which costs nothing.
#ifdef __x86_64__
#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "hwy/base.h"
#include "qkv/simd/gemm/row_kernel.h"
#include "qkv/simd/gemm/tile_kernel.h"
#include "qkv/simd/gemm/tile_prefetch.h"

HWY_PUSH_ATTRIBUTES("avx512f,avx512vnni")
namespace qkv::simd::internal {
namespace {

struct Dot {
  using Sum = __m512i;
  using Operand = __m512i;
  using Element = int32_t;
  static constexpr int kRows = 14, kVectors = 2, kFold = 1, kChunk = 64;

  static Operand Broadcast(int32_t group) { return _mm512_set1_epi32(group); }
  static Sum Add(Sum sum, const Operand (&a)[1], const Operand (&b)[1]) { return _mm512_dpbusd_epi32(sum, a[0], b[0]); }
};

}  // namespace
}  // namespace qkv::simd::internal
#include "qkv/simd/gemm/tile_loop-inl.h"

namespace qkv::simd::internal {

constinit const TileKernel kInt8Avx512Vnni = {.name = "avx512_vnni",
                                              .panel = 32,
                                              .rows = Dot::kRows,
                                              .group = 4,
                                              .chunk = Dot::kChunk,
                                              .activation_max = 255,
                                              .weight_max = 127,
                                              .multiply = MultiplyTile};
constinit const RowMultiply kInt8Avx512VnniRow = MultiplyRow;

}  // namespace qkv::simd::internal
HWY_POP_ATTRIBUTES
#endif  // __x86_64__
