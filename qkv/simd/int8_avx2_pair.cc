// int8 products with AVX2, one vpmaddubsw to one step to int32: 7 bits are needed on one side only, 2 · 255 · 64 =
// 32640 and 2 · 127 · 127 = 32258 fit. Three quarters of the speed of int8_avx2.cc; which of the three stays is decided
// by how far models drift.
#ifdef __x86_64__
#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "hwy/base.h"
#include "qkv/simd/tile_kernel.h"
#include "qkv/simd/tile_prefetch.h"

HWY_PUSH_ATTRIBUTES("avx2")
namespace qkv::simd::internal {
namespace {

struct Dot {
  using Sum = __m256i;
  using Operand = __m256i;
  using Element = int32_t;
  static constexpr int kRows = 4, kVectors = 2, kFold = 1, kChunk = 64;

  static Operand Broadcast(int32_t group) { return _mm256_set1_epi32(group); }
  static Sum Add(Sum sum, const Operand (&a)[1], const Operand (&b)[1]) {
    const __m256i pairs = _mm256_maddubs_epi16(a[0], b[0]);
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    asm("" : "+x"(sum));  // or GCC 12 adds up several products before it adds them to the sum, and spills
    return sum;
  }
};

}  // namespace
}  // namespace qkv::simd::internal
#include "qkv/simd/tile_loop-inl.h"

namespace qkv::simd::internal {

constinit const TileKernel kInt8Avx2U8S7 = {.name = "avx2_u8s7",
                                            .panel = 16,
                                            .rows = Dot::kRows,
                                            .group = 4,
                                            .chunk = Dot::kChunk,
                                            .activation_max = 255,
                                            .weight_max = 64,
                                            .multiply = MultiplyTile};
constinit const TileKernel kInt8Avx2U7S8 = {.name = "avx2_u7s8",
                                            .panel = 16,
                                            .rows = Dot::kRows,
                                            .group = 4,
                                            .chunk = Dot::kChunk,
                                            .activation_max = 127,
                                            .weight_max = 127,
                                            .multiply = MultiplyTile};

}  // namespace qkv::simd::internal
HWY_POP_ATTRIBUTES
#endif  // __x86_64__
