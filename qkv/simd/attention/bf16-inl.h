// Shared by attention and its gradient in bfloat16: rounding, and rows arranged as the operands of a tile kernel.

#if defined(QKV_SIMD_ATTENTION_BF16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_SIMD_ATTENTION_BF16_INL_H_
#undef QKV_SIMD_ATTENTION_BF16_INL_H_
#else
#define QKV_SIMD_ATTENTION_BF16_INL_H_
#endif

#include <algorithm>

#include "qkv/simd/attention/bf16.h"
#include "qkv/simd/gemm/bf16-inl.h"
#include "qkv/simd/gemm/tile-inl.h"
#include "qkv/simd/gemm/transpose-inl.h"
#include "qkv/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {

inline constexpr int kBf16Width = static_cast<int>(kAttentionBf16Panel);
inline constexpr int kPairChunk = 32;  // elements of A in 64 bytes

HWY_INLINE int64_t RoundUpToChunk(int64_t n) { return (n + kPairChunk - 1) / kPairChunk * kPairChunk; }

// Division of the rows of A into tiles of the kernel, as even as possible. For AMX all tiles are full: its kernel takes
// whole tiles, so missing rows cost nothing, while another row count needs another configuration.
struct KernelTiles : RowTiles {
  KernelTiles(int64_t total, const internal::TileKernel& kernel)
      : RowTiles(kernel.rows % kPairChunk == 0 ? RoundUpToChunk(total) : total, kernel.rows) {}
  // The fewest tiles that hold the first n rows.
  int64_t Covering(int64_t n) const {
    int64_t tiles = count;
    while (tiles > 0 && begin(tiles - 1) >= n) --tiles;
    return tiles;
  }
};

// Rows of kBf16Width become pairs of rows: [pairs][kBf16Width][2] of bfloat16; may be done in place.
HWY_NOINLINE inline void PackPairs(const float* rows, int64_t pairs, float* to) {
  const Tag<float> d;
  for (int64_t p = 0; p < pairs; ++p, rows += 2 * kBf16Width, to += kBf16Width) {
    for (int i = 0; i < kBf16Width; i += kLanes<float>) {
      hn::StoreU(Pairs(hn::LoadU(d, rows + i), hn::LoadU(d, rows + kBf16Width + i)), d, to + i);
    }
  }
}

struct MatrixRows {
  const float* data;
  int64_t stride, rows, width;
};

HWY_INLINE Vector<float> LoadOrZero(const float* row, int64_t e, int64_t width) {
  const Tag<float> d;
  if (width - e >= kLanes<float>) return hn::LoadU(d, row + e);
  return width > e ? LoadSome(d, row + e, static_cast<size_t>(width - e)) : hn::Zero(d);
}

// Rows as A: [padded / 32][rows of a tile][32], tile after tile, padded with zero rows.
HWY_NOINLINE inline void PackRows(const MatrixRows& m, const KernelTiles& tiles, int64_t padded, uint16_t* to) {
  for (int64_t t = 0; t < tiles.count; ++t) {
    const int64_t rows = tiles.size(t);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t i = tiles.begin(t) + r;
      uint16_t* tile = to + tiles.begin(t) * padded + r * kPairChunk;
      for (int64_t e = 0; e < padded; e += kLanes<float>) {
        StoreBf16(LoadOrZero(m.data + i * m.stride, e, i < m.rows ? m.width : 0),
                  tile + e / kPairChunk * rows * kPairChunk + e % kPairChunk);
      }
    }
  }
}

// Columns as the rows of A: [padded rows / 32][columns of a tile][32], tile after tile, padded with zeros past the last
// row and the last column. `columns` is scratch for all of them in one vector, `zeros` holds a row of zeros.
HWY_NOINLINE inline void PackColumns(const MatrixRows& m, const KernelTiles& tiles, float* columns, const float* zeros,
                                     uint16_t* to) {
  const Tag<float> d;
  const int64_t padded = RoundUpToChunk(m.rows);
  std::fill(columns + m.width * kLanes<float>, columns + RoundUpToChunk(m.width) * kLanes<float>, 0.0f);
  for (int64_t j = 0; j < padded; j += kLanes<float>) {
    const float* rows[kLanes<float>];
    for (int64_t i = 0; i < kLanes<float>; ++i) rows[i] = j + i < m.rows ? m.data + (j + i) * m.stride : zeros;
    TransposeIn(rows, m.width, 1.0f, columns, kLanes<float>);
    for (int64_t t = 0; t < tiles.count; ++t) {
      uint16_t* chunk = to + tiles.begin(t) * padded + j / kPairChunk * tiles.size(t) * kPairChunk + j % kPairChunk;
      for (int64_t e = tiles.begin(t); e < tiles.begin(t + 1); ++e, chunk += kPairChunk) {
        StoreBf16(hn::LoadU(d, columns + e * kLanes<float>), chunk);
      }
    }
  }
}

// c = a b, or += if not `first`, for the first `count` tiles of A.
inline void MultiplyTiles(const internal::TileKernel& kernel, const KernelTiles& tiles, int64_t count,
                          const uint16_t* a, int64_t a_depth, const float* b, int64_t depth, bool first, float* c) {
  for (int64_t t = 0; t < count; ++t) {
    kernel.multiply(tiles.size(t), a + tiles.begin(t) * a_depth, b, depth, first, c + tiles.begin(t) * kBf16Width,
                    nullptr, 0);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#endif  // QKV_SIMD_ATTENTION_BF16_INL_H_
