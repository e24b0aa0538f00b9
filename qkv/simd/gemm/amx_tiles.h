// The loop of the AMX kernels. The two files that include it define the product: of bytes, or of bfloat16.
#pragma once

#include <immintrin.h>

#include <array>
#include <cstdint>

#include "qkv/simd/gemm/tile_prefetch.h"

#define QKV_AMX __attribute__((target("amx-tile,amx-int8,amx-bf16")))

namespace qkv::simd::internal {

inline constexpr int kAmxTileRows = 16, kAmxTileBytes = 64;  // the greatest tile
inline constexpr int kAmxRows = 2 * kAmxTileRows;            // of C per call

// The operand of ldtilecfg (SDM volume 1, 18.2).
struct alignas(64) AmxConfiguration {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t bytes[16] = {};  // per row of each of the eight tiles
  uint8_t rows[16] = {};    // of each tile
};
static_assert(sizeof(AmxConfiguration) == 64);

// Tiles 0…3 are C as 2 × 2, 4 and 5 two blocks of rows of A, 6 and 7 two blocks of columns of B. A and C have the rows
// of the call, B has groups of k. Up to 16 rows need neither tile 5 nor tiles 2 and 3.
constexpr AmxConfiguration ConfigurationForRows(int rows) {
  AmxConfiguration configuration;
  const int rows_of_half[2] = {rows < kAmxTileRows ? rows : kAmxTileRows,
                               rows > kAmxTileRows ? rows - kAmxTileRows : 0};
  for (const int tile : {0, 1, 2, 3, 4, 5, 6, 7}) {
    const int tile_rows = tile >= 6 ? kAmxTileRows : rows_of_half[tile >= 4 ? tile - 4 : tile / 2];
    configuration.rows[tile] = static_cast<uint8_t>(tile_rows);
    configuration.bytes[tile] = tile_rows == 0 ? 0 : kAmxTileBytes;
  }
  return configuration;
}

// Computed at compile time for each count of rows: GCC 12's ldtilecfg declares that it reads only the first bytes, so
// the compiler would drop the stores of the others.
inline constexpr auto kAmxConfigurations = [] {
  std::array<AmxConfiguration, kAmxRows + 1> all;
  for (int rows = 0; rows <= kAmxRows; ++rows) all[static_cast<size_t>(rows)] = ConfigurationForRows(rows);
  return all;
}();

// Rows that this thread's tiles are configured for; 0: tiles are released.
inline constinit thread_local int amx_configured_rows = 0;

// A configuration stays until the rows change or the thread finishes: ldtilecfg takes 204 cycles (Intel's optimization
// manual), the product of two full tiles 16.
QKV_AMX inline void ConfigureAmx(int rows) {
  if (amx_configured_rows == rows) return;
  _tile_loadconfig(&kAmxConfigurations[static_cast<size_t>(rows)]);
  amx_configured_rows = rows;
}

// TileKernel::finish. While tiles are in use, every context switch saves 8 KiB more, and the core cannot sleep deeply.
QKV_AMX inline void ReleaseAmx() {
  if (amx_configured_rows == 0) return;
  _tile_release();
  amx_configured_rows = 0;
}

// C[rows][32] of four-byte elements = or += A B. a: [chunks][rows][64 bytes], b: [chunks][16 groups][32][4 bytes].
// Product::Multiply<i, j>() is C(i, j) += A(i) B(j).
template <class Product, bool kTwoHalves>
QKV_AMX void MultiplyTiles(int rows, const char* a, const char* b, int64_t chunks, bool first, char* c,
                           TilePrefetch prefetch) {
  constexpr int64_t kRowOfC = 2 * kAmxTileBytes, kGroupsOfB = 2 * kAmxTileBytes;
  char* const c_low = c + kAmxTileRows * kRowOfC;
  if (first) {
    _tile_zero(0);
    _tile_zero(1);
    if constexpr (kTwoHalves) {
      _tile_zero(2);
      _tile_zero(3);
    }
  } else {
    _tile_loadd(0, c, kRowOfC);
    _tile_loadd(1, c + kAmxTileBytes, kRowOfC);
    if constexpr (kTwoHalves) {
      _tile_loadd(2, c_low, kRowOfC);
      _tile_loadd(3, c_low + kAmxTileBytes, kRowOfC);
    }
  }
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    prefetch.PrefetchShare();
    _tile_loadd(6, b, kGroupsOfB);
    _tile_loadd(4, a, kAmxTileBytes);
    Product::template Multiply<0, 0>();
    _tile_loadd(7, b + kAmxTileBytes, kGroupsOfB);
    Product::template Multiply<0, 1>();
    if constexpr (kTwoHalves) {
      _tile_loadd(5, a + kAmxTileRows * kAmxTileBytes, kAmxTileBytes);
      Product::template Multiply<1, 0>();
      Product::template Multiply<1, 1>();
    }
    a += rows * kAmxTileBytes;
    b += kAmxTileRows * kGroupsOfB;
  }
  _tile_stored(0, c, kRowOfC);
  _tile_stored(1, c + kAmxTileBytes, kRowOfC);
  if constexpr (kTwoHalves) {
    _tile_stored(2, c_low, kRowOfC);
    _tile_stored(3, c_low + kAmxTileBytes, kRowOfC);
  }
}

// The intrinsics accept only literal tile numbers.
#define QKV_AMX_PRODUCT(NAME, INTRINSIC)                  \
  struct NAME {                                           \
    template <int i, int j>                               \
    QKV_AMX static void Multiply() {                      \
      if constexpr (i == 0 && j == 0) INTRINSIC(0, 4, 6); \
      if constexpr (i == 0 && j == 1) INTRINSIC(1, 4, 7); \
      if constexpr (i == 1 && j == 0) INTRINSIC(2, 5, 6); \
      if constexpr (i == 1 && j == 1) INTRINSIC(3, 5, 7); \
    }                                                     \
  }

// A TileMultiply with chunks in place of depth.
template <class Product>
void MultiplyAmx(int rows, const void* a, const void* b, int64_t chunks, bool first, void* c, const char* next,
                 int64_t lines) {
  // GCC 12's tile loads do not declare that they read memory; all earlier stores must be done before them.
  asm volatile("" ::: "memory");
  ConfigureAmx(rows);
  const auto multiply = rows > kAmxTileRows ? MultiplyTiles<Product, true> : MultiplyTiles<Product, false>;
  multiply(rows, static_cast<const char*>(a), static_cast<const char*>(b), chunks, first, static_cast<char*>(c),
           TilePrefetch({next, lines}, chunks));
}

}  // namespace qkv::simd::internal
