// Peak rates of the tile kernels' instructions, on registers and the calling thread.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "qkv/simd/gemm/amx_tiles.h"

namespace qkv::simd {

// Sixteen chains of one instruction (twelve with 16 registers), `kRounds` steps each. Returns multiply-adds.
constexpr int64_t kRounds = 4000;
#define QKV_PEAK(NAME, TARGET, CHAINS, VECTOR, SET, STEP, PRODUCTS)         \
  __attribute__((target(TARGET))) inline double NAME() {                    \
    VECTOR sum[CHAINS], a = SET, b = SET;                                   \
    _Pragma("GCC unroll 16") for (int i = 0; i < CHAINS; ++i) sum[i] = SET; \
    asm("" : "+v"(a), "+v"(b));                                             \
    for (int64_t r = 0; r < kRounds; ++r) {                                 \
      _Pragma("GCC unroll 16") for (int i = 0; i < CHAINS; ++i) {           \
        STEP;                                                               \
        asm volatile("" : "+v"(sum[i]), "+v"(a));                           \
      }                                                                     \
    }                                                                       \
    return static_cast<double>(kRounds) * CHAINS * (PRODUCTS);              \
  }
QKV_PEAK(Fma256, "avx2,fma", 12, __m256, _mm256_set1_ps(0.5f), sum[i] = _mm256_fmadd_ps(a, b, sum[i]), 8)
QKV_PEAK(Fma512, "avx512f", 16, __m512, _mm512_set1_ps(0.5f), sum[i] = _mm512_fmadd_ps(a, b, sum[i]), 16)
QKV_PEAK(MaddubsFolded, "avx2", 12, __m256i, _mm256_set1_epi8(1),
         const __m256i pairs = _mm256_add_epi16(_mm256_maddubs_epi16(a, b), _mm256_maddubs_epi16(b, a));
         sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(pairs, b)), 64)
QKV_PEAK(DotBytes256, "avx2,avxvnni", 12, __m256i, _mm256_set1_epi8(1), sum[i] = _mm256_dpbusd_avx_epi32(sum[i], a, b),
         32)
QKV_PEAK(DotBytes512, "avx512f,avx512vnni", 16, __m512i, _mm512_set1_epi8(1),
         sum[i] = _mm512_dpbusd_epi32(sum[i], a, b), 64)
QKV_PEAK(DotBf16, "avx512f,avx512bf16", 16, __m512, _mm512_set1_ps(0.5f),
         sum[i] = _mm512_dpbf16_ps(sum[i], (__m512bh)a, (__m512bh)b), 32)
#undef QKV_PEAK

QKV_AMX_PRODUCT(BytesProduct, _tile_dpbusd);
QKV_AMX_PRODUCT(Bf16Product, _tile_dpbf16ps);
template <class Product, int kProducts>
QKV_AMX inline double Tiles() {
  internal::ConfigureAmx(internal::kAmxRows);
  for (int64_t r = 0; r < kRounds; ++r) {
    Product::template Multiply<0, 0>();
    Product::template Multiply<0, 1>();
    Product::template Multiply<1, 0>();
    Product::template Multiply<1, 1>();
  }
  return static_cast<double>(kRounds) * 4 * kProducts;
}

}  // namespace qkv::simd
