// The loop of the AMX kernels, over a machine of tiles: the processor's (amx_machine.h), or the one in software on
// which the tests run the same code where there is no AMX.
//
//   struct Machine {
//     static void Configure(int rows);  // as kAmxConfigurations[rows] says
//     template <int kTile> static void Load(const void* from, int64_t stride), Store(void* to, int64_t stride), Zero();
//     template <int kC, int kA, int kB> static void Multiply();  // the product of bytes or of bfloat16
//   };
#pragma once

#include <array>
#include <cstdint>

#include "qkv/simd/tile_prefetch.h"

// Such code runs anywhere as long as the machine is software: without intrinsics the attribute changes no instruction.
#ifdef __x86_64__
#define QKV_AMX __attribute__((target("amx-tile,amx-int8,amx-bf16")))
#else
#define QKV_AMX
#endif

namespace qkv::simd::internal {

inline constexpr int kAmxTileRows = 16, kAmxTileBytes = 64;  // the greatest tile
inline constexpr int kAmxRows = 2 * kAmxTileRows;            // of a tile of C in a call

// What ldtilecfg reads.
struct alignas(64) TileConfiguration {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t bytes[16] = {};  // in a row of each tile; there are eight
  uint8_t rows[16] = {};    // of each tile
};
static_assert(sizeof(TileConfiguration) == 64);

// Tiles 0…3 are C as 2 × 2, 4 and 5 two blocks of rows of A, 6 and 7 two blocks of columns of B. The rows of A and C
// are as many as the call has, those of B are groups of k. Up to 16 rows need neither tile 5 nor 2 and 3.
constexpr TileConfiguration AmxConfiguration(int rows) {
  TileConfiguration configuration;
  const int rows_of_half[2] = {rows < kAmxTileRows ? rows : kAmxTileRows,
                               rows > kAmxTileRows ? rows - kAmxTileRows : 0};
  for (const int tile : {0, 1, 2, 3, 4, 5, 6, 7}) {
    const int tile_rows = tile >= 6 ? kAmxTileRows : rows_of_half[tile >= 4 ? tile - 4 : tile / 2];
    configuration.rows[tile] = static_cast<uint8_t>(tile_rows);
    configuration.bytes[tile] = tile_rows == 0 ? 0 : kAmxTileBytes;
  }
  return configuration;
}

// For each count of rows, made by the compiler: GCC 12's ldtilecfg does not tell it that more than the first bytes of a
// configuration are read, and it would leave out the writing of the others.
inline constexpr auto kAmxConfigurations = [] {
  std::array<TileConfiguration, kAmxRows + 1> all;
  for (int rows = 0; rows <= kAmxRows; ++rows) all[static_cast<size_t>(rows)] = AmxConfiguration(rows);
  return all;
}();

// C[rows][32] of four-byte elements = or += A B. a: [chunks][rows][64 bytes], b: [chunks][16 groups][32][4 bytes].
template <class Machine, bool kTwoHalves>
QKV_AMX void MultiplyTiles(int rows, const char* a, const char* b, int64_t chunks, bool first, char* c,
                           TilePrefetch prefetch) {
  constexpr int64_t kRowOfC = 2 * kAmxTileBytes, kGroupsOfB = 2 * kAmxTileBytes;
  char* const c_low = c + kAmxTileRows * kRowOfC;
  if (first) {
    Machine::template Zero<0>();
    Machine::template Zero<1>();
    if constexpr (kTwoHalves) {
      Machine::template Zero<2>();
      Machine::template Zero<3>();
    }
  } else {
    Machine::template Load<0>(c, kRowOfC);
    Machine::template Load<1>(c + kAmxTileBytes, kRowOfC);
    if constexpr (kTwoHalves) {
      Machine::template Load<2>(c_low, kRowOfC);
      Machine::template Load<3>(c_low + kAmxTileBytes, kRowOfC);
    }
  }
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    prefetch.Some();
    Machine::template Load<6>(b, kGroupsOfB);
    Machine::template Load<4>(a, kAmxTileBytes);
    Machine::template Multiply<0, 4, 6>();
    Machine::template Load<7>(b + kAmxTileBytes, kGroupsOfB);
    Machine::template Multiply<1, 4, 7>();
    if constexpr (kTwoHalves) {
      Machine::template Load<5>(a + kAmxTileRows * kAmxTileBytes, kAmxTileBytes);
      Machine::template Multiply<2, 5, 6>();
      Machine::template Multiply<3, 5, 7>();
    }
    a += rows * kAmxTileBytes;
    b += kAmxTileRows * kGroupsOfB;
  }
  Machine::template Store<0>(c, kRowOfC);
  Machine::template Store<1>(c + kAmxTileBytes, kRowOfC);
  if constexpr (kTwoHalves) {
    Machine::template Store<2>(c_low, kRowOfC);
    Machine::template Store<3>(c_low + kAmxTileBytes, kRowOfC);
  }
}

// A TileMultiply, but for chunks in place of depth.
template <class Machine>
void MultiplyAmx(int rows, const void* a, const void* b, int64_t chunks, bool first, void* c, const char* next,
                 int64_t lines) {
  Machine::Configure(rows);
  const auto multiply = rows > kAmxTileRows ? MultiplyTiles<Machine, true> : MultiplyTiles<Machine, false>;
  multiply(rows, static_cast<const char*>(a), static_cast<const char*>(b), chunks, first, static_cast<char*>(c),
           TilePrefetch(next, lines, chunks));
}

}  // namespace qkv::simd::internal
