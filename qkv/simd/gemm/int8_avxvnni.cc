// int8 products with AVX-VNNI, the 256-bit form of vpdpbusd for processors without AVX-512 (Alder Lake and later). 6 ×
// 2 accumulators, two vectors of B, one broadcast of A and one spare fill the 16 registers.
#ifdef __x86_64__
#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "hwy/base.h"
#include "qkv/simd/gemm/row_kernel.h"
#include "qkv/simd/gemm/tile_kernel.h"
#include "qkv/simd/gemm/tile_prefetch.h"

HWY_PUSH_ATTRIBUTES("avx2,avxvnni")
namespace qkv::simd::internal {
namespace {

struct Dot {
  using Sum = __m256i;
  using Operand = __m256i;
  using Element = int32_t;
  static constexpr int kRows = 6, kVectors = 2, kFold = 1, kChunk = 64;

  static Operand Broadcast(int32_t group) { return _mm256_set1_epi32(group); }
  static Sum Add(Sum sum, const Operand (&a)[1], const Operand (&b)[1]) {
    sum = _mm256_dpbusd_avx_epi32(sum, a[0], b[0]);
    asm("" : "+x"(sum));  // otherwise GCC 12 adds several products before adding them to the sum, and spills
    return sum;
  }
};

}  // namespace
}  // namespace qkv::simd::internal
#include "qkv/simd/gemm/tile_loop-inl.h"

namespace qkv::simd::internal {

constinit const TileKernel kInt8AvxVnni = {.name = "avx_vnni",
                                           .panel = 16,
                                           .rows = Dot::kRows,
                                           .group = 4,
                                           .chunk = Dot::kChunk,
                                           .activation_max = 255,
                                           .weight_max = 127,
                                           .multiply = MultiplyTile};
constinit const RowMultiply kInt8AvxVnniRow = MultiplyRow;

}  // namespace qkv::simd::internal
HWY_POP_ATTRIBUTES
#endif  // __x86_64__
