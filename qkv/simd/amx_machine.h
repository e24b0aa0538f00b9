// The processor's tiles, as the loop of the AMX kernels (amx_tiles.h) uses them.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "qkv/simd/amx_tiles.h"

namespace qkv::simd::internal {

// Rows that this thread's tiles are configured for; 0: they are not in use.
inline constinit thread_local int amx_configured_rows = 0;

struct AmxMachine {
  // A configuration stays until the rows change or the thread is done: ldtilecfg takes 204 cycles (Intel's optimization
  // manual), the product of two full tiles 16.
  QKV_AMX static void Configure(int rows) {
    // GCC 12's tile loads do not say that they read memory, so nothing written before may wait until after them.
    asm volatile("" ::: "memory");
    if (amx_configured_rows == rows) return;
    _tile_loadconfig(&kAmxConfigurations[static_cast<size_t>(rows)]);
    amx_configured_rows = rows;
  }

  // Tiles in use make every switch of threads save 8 KiB more, and keep a core from deep sleep.
  QKV_AMX static void Release() {
    if (amx_configured_rows == 0) return;
    _tile_release();
    amx_configured_rows = 0;
  }

// The intrinsics take tile numbers as literals only.
#define QKV_FOR_TILES(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)
  template <int kTile>
  QKV_AMX static void Load(const void* from, int64_t stride) {
#define QKV_LOAD(TILE) \
  if constexpr (kTile == TILE) _tile_loadd(TILE, from, stride);
    QKV_FOR_TILES(QKV_LOAD)
#undef QKV_LOAD
  }

  template <int kTile>
  QKV_AMX static void Store(void* to, int64_t stride) {
#define QKV_STORE(TILE) \
  if constexpr (kTile == TILE) _tile_stored(TILE, to, stride);
    QKV_FOR_TILES(QKV_STORE)
#undef QKV_STORE
  }

  template <int kTile>
  QKV_AMX static void Zero() {
#define QKV_ZERO(TILE) \
  if constexpr (kTile == TILE) _tile_zero(TILE);
    QKV_FOR_TILES(QKV_ZERO)
#undef QKV_ZERO
  }
#undef QKV_FOR_TILES
};

// The four products of the loop, written out for the same reason.
#define QKV_AMX_PRODUCTS(INSTRUCTION)                    \
  template <int kC, int kA, int kB>                      \
  QKV_AMX static void Multiply() {                       \
    static_assert(kA == 4 + kC / 2 && kB == 6 + kC % 2); \
    if constexpr (kC == 0) INSTRUCTION(0, 4, 6);         \
    if constexpr (kC == 1) INSTRUCTION(1, 4, 7);         \
    if constexpr (kC == 2) INSTRUCTION(2, 5, 6);         \
    if constexpr (kC == 3) INSTRUCTION(3, 5, 7);         \
  }

}  // namespace qkv::simd::internal
