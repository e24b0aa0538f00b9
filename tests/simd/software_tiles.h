// AMX in software: eight tiles of up to 16 rows of 64 bytes, and what Intel's manual (SDM volume 2, "TDPBUSD",
// "TDPBF16PS") says that the instructions do. Where the processor would raise #UD, it throws.
#pragma once

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "qkv/simd/amx_tiles.h"

namespace qkv::simd {

class SoftwareTiles {
 public:
  // The loop configures once a call, and may leave out what did not change.
  static void Configure(int rows) {
    configuration_ = internal::kAmxConfigurations[static_cast<size_t>(rows)];
    Check(configuration_.palette == 1 && configuration_.start_row == 0);
    for (int t = 0; t < 16; ++t) {
      Check(t < kTiles ? configuration_.rows[t] <= 16 && configuration_.bytes[t] <= 64
                       : configuration_.rows[t] == 0 && configuration_.bytes[t] == 0);
      Check((configuration_.rows[t] == 0) == (configuration_.bytes[t] == 0));
    }
    std::memset(tiles_, 0, sizeof(tiles_));
  }

  template <int kTile>
  static void Load(const void* from, int64_t stride) {
    Zero<kTile>();
    for (int r = 0; r < configuration_.rows[kTile]; ++r) {
      std::memcpy(tiles_[kTile][r], static_cast<const char*>(from) + r * stride, configuration_.bytes[kTile]);
    }
  }

  template <int kTile>
  static void Store(void* to, int64_t stride) {
    CheckTile(kTile);
    for (int r = 0; r < configuration_.rows[kTile]; ++r) {
      std::memcpy(static_cast<char*>(to) + r * stride, tiles_[kTile][r], configuration_.bytes[kTile]);
    }
  }

  template <int kTile>
  static void Zero() {
    CheckTile(kTile);
    std::memset(tiles_[kTile], 0, sizeof(tiles_[kTile]));
  }

 protected:
  // Shapes that a product demands: rows of C and A agree, columns of C and B, groups of A and rows of B.
  static void CheckProduct(int c, int a, int b) {
    CheckTile(c), CheckTile(a), CheckTile(b);
    Check(configuration_.rows[c] == configuration_.rows[a] && configuration_.bytes[c] == configuration_.bytes[b] &&
          configuration_.bytes[a] == 4 * configuration_.rows[b]);
  }
  template <typename T>
  static T Get(int tile, int row, int index) {
    T value;
    std::memcpy(&value, tiles_[tile][row] + static_cast<size_t>(index) * sizeof(T), sizeof(T));
    return value;
  }
  template <typename T>
  static void Set(int tile, int row, int index, T value) {
    std::memcpy(tiles_[tile][row] + static_cast<size_t>(index) * sizeof(T), &value, sizeof(T));
  }
  static int Rows(int tile) { return configuration_.rows[tile]; }
  static int Columns(int tile) { return configuration_.bytes[tile] / 4; }

 private:
  static constexpr int kTiles = 8;

  static void Check(bool condition) {
    if (!condition) throw std::logic_error("AMX: #UD");
  }
  static void CheckTile(int tile) { Check(configuration_.rows[tile] > 0); }

  static inline thread_local internal::TileConfiguration configuration_;
  static inline thread_local uint8_t tiles_[kTiles][16][64];
};

struct SoftwareInt8Tiles : SoftwareTiles {
  template <int kC, int kA, int kB>
  static void Multiply() {  // TDPBUSD
    CheckProduct(kC, kA, kB);
    for (int m = 0; m < Rows(kC); ++m) {
      for (int k = 0; k < Columns(kA); ++k) {
        for (int n = 0; n < Columns(kC); ++n) {
          int32_t sum = Get<int32_t>(kC, m, n);
          for (int i = 0; i < 4; ++i) sum += Get<uint8_t>(kA, m, 4 * k + i) * Get<int8_t>(kB, k, 4 * n + i);
          Set(kC, m, n, sum);
        }
      }
    }
  }
};

struct SoftwareBf16Tiles : SoftwareTiles {
  template <int kC, int kA, int kB>
  static void Multiply() {  // TDPBF16PS
    CheckProduct(kC, kA, kB);
    for (int m = 0; m < Rows(kC); ++m) {
      for (int n = 0; n < Columns(kC); ++n) {
        float even = 0, odd = 0;
        for (int k = 0; k < Columns(kA); ++k) {
          even = Fma(Float(kA, m, 2 * k), Float(kB, k, 2 * n), even);
          odd = Fma(Float(kA, m, 2 * k + 1), Float(kB, k, 2 * n + 1), odd);
        }
        Set(kC, m, n, Flush(Flush(Get<float>(kC, m, n)) + Flush(even + odd)));
      }
    }
  }

 private:
  static float Flush(float x) { return std::abs(x) < FLT_MIN ? std::copysign(0.0f, x) : x; }
  static float Float(int tile, int row, int index) {
    return Flush(std::bit_cast<float>(static_cast<uint32_t>(Get<uint16_t>(tile, row, index)) << 16));
  }
  static float Fma(float a, float b, float c) { return Flush(std::fma(a, b, c)); }
};

}  // namespace qkv::simd
