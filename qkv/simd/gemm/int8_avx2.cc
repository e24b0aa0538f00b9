// int8 products with AVX2: vpmaddubsw sums two products in int16, with saturation. With 7 bits on both sides, sums of
// two of them still fit, 4 · 127 · 64 = 32512, and share the conversion to int32 (vpmaddwd by ones). With 8 bits on one
// side and one sum at a time, the error is two thirds and the speed 0.77. 7 bits suffice: mean cosine of the logits
// 0.99994, accuracy within 0.03 points, on the trained reference models (tests/model/reference_test.cc).
#ifdef __x86_64__
#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "hwy/base.h"
#include "qkv/simd/gemm/row_kernel.h"
#include "qkv/simd/gemm/tile_kernel.h"
#include "qkv/simd/gemm/tile_prefetch.h"

HWY_PUSH_ATTRIBUTES("avx2")
namespace qkv::simd::internal {
namespace {

struct Dot {
  using Sum = __m256i;
  using Operand = __m256i;
  using Element = int32_t;
  static constexpr int kRows = 4, kVectors = 2, kFold = 2, kChunk = 64;

  static Operand Broadcast(int32_t group) { return _mm256_set1_epi32(group); }
  static Sum Add(Sum sum, const Operand (&a)[2], const Operand (&b)[2]) {
    const __m256i pairs = _mm256_add_epi16(_mm256_maddubs_epi16(a[0], b[0]), _mm256_maddubs_epi16(a[1], b[1]));
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    asm("" : "+x"(sum));  // otherwise GCC 12 adds several products before adding them to the sum, and spills
    return sum;
  }
};

}  // namespace
}  // namespace qkv::simd::internal
#include "qkv/simd/gemm/tile_loop-inl.h"

namespace qkv::simd::internal {

constinit const TileKernel kInt8Avx2 = {.name = "avx2_maddubs",
                                        .panel = 16,
                                        .rows = Dot::kRows,
                                        .group = 4,
                                        .chunk = Dot::kChunk,
                                        .activation_max = 127,
                                        .weight_max = 64,
                                        .multiply = MultiplyTile};
constinit const RowMultiply kInt8Avx2Row = MultiplyRow;

}  // namespace qkv::simd::internal
HWY_POP_ATTRIBUTES
#endif  // __x86_64__
