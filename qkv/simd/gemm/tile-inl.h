// The register tile of matrix products and attention: C[R][W] += Σ_k A(r, k) · B(k, 0…W), where W is one or two vectors
// and B is dense ([k][W]). Every element is one chain of multiply-adds in the order of k for any shape of the tile, so
// a row's result is independent of the rows beside it.

#if defined(QKV_SIMD_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_SIMD_TILE_INL_H_
#undef QKV_SIMD_TILE_INL_H_
#else
#define QKV_SIMD_TILE_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <utility>

#include "hwy/highway.h"
#include "qkv/core/tensor.h"
#include "qkv/simd/gemm/gemm_task.h"
#include "qkv/simd/gemm/tile_prefetch.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows of a tile of two vectors: accumulators, the two vectors of B and a broadcast fill the registers (32 in AVX-512
// and NEON, else 16; without FMA the product needs one more). A 14th row would also fit into 32, but with 192 steps of
// K it made every row 3 % slower (Xeon, family 6 model 207).
#if HWY_IS_ASAN || HWY_IS_TSAN
inline constexpr int kTileRows = 4;  // does not change results; with sanitizers so many kernels compile slowly
#elif HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
inline constexpr int kTileRows = 13;
#elif HWY_TARGET == HWY_AVX2
inline constexpr int kTileRows = 6;
#else
inline constexpr int kTileRows = 5;
#endif

// A is divided into chunks of this many k, so that the distance of two rows is a compile-time constant (one pointer
// addresses all of them) and not a power of two, which would map them to the same cache set.
inline constexpr int64_t kChunk = kRowChunk;

template <typename T>
using Tag = hn::ScalableTag<T>;
template <typename T>
using Vector = hn::Vec<Tag<T>>;

// Elements per vector, a constant for every compiled target.
template <typename T>
inline constexpr int kLanes = static_cast<int>(hn::MaxLanes(Tag<T>()));

template <typename T, int R, int V>
struct Accumulators {
  Vector<T> at[R][V];

  HWY_INLINE void Clear() {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) at[r][v] = hn::Zero(Tag<T>());
    }
  }

  // += A(r, 0) · B for one k; A(r, 0) is at a[r · kRowStride].
  template <int kRowStride>
  HWY_INLINE void Step(const T* a, const T* b) {
    const Tag<T> d;
    Vector<T> vb[V];
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) vb[v] = hn::LoadU(d, b + v * kLanes<T>);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const Vector<T> va = hn::Set(d, a[r * kRowStride]);
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) at[r][v] = hn::MulAdd(va, vb[v], at[r][v]);
    }
  }

  HWY_INLINE void Store(T* c, int64_t stride) const {
    const Tag<T> d;
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) hn::StoreU(at[r][v], d, c + r * stride + v * kLanes<T>);
    }
  }

  // += c · factor, with one factor per column
  HWY_INLINE void AddScaledFrom(const T* c, int64_t stride, const T* factor) {
    const Tag<T> d;
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) {
        const auto scale = hn::LoadU(d, factor + v * kLanes<T>);
        at[r][v] = hn::MulAdd(hn::LoadU(d, c + r * stride + v * kLanes<T>), scale, at[r][v]);
      }
    }
  }

  // += row, the same for every r
  HWY_INLINE void AddRow(const T* row) {
    const Tag<T> d;
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) at[r][v] = hn::Add(at[r][v], hn::LoadU(d, row + v * kLanes<T>));
    }
  }

  HWY_INLINE void AddFrom(const T* c, int64_t stride) {
    const Tag<T> d;
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) at[r][v] = hn::Add(hn::LoadU(d, c + r * stride + v * kLanes<T>), at[r][v]);
    }
  }
};

// Memory to prefetch during computation, in every kGroup steps: weights, and `row_lines` cache lines of rows that are
// `stride` bytes apart, the first line of each row, then the second of each.
struct Prefetch {
  static constexpr int64_t kGroup = 8;
  internal::TilePrefetch weights;

  const char* row = nullptr;
  int64_t row_lines = 0, stride = 0, rows = 0, row_index = 0;

  HWY_INLINE void PrefetchShare() {
    weights.PrefetchShare();
    for (int64_t i = 0; i < row_lines; ++i) {
      __builtin_prefetch(row, 0, 2);
      row += stride;
      if (++row_index == rows) row += static_cast<int64_t>(kAlignment) - rows * stride, row_index = 0;
    }
  }
};

// += Σ_{k < depth} A(r, k) · B(k) with A in chunks, [R][kChunk] each; a_chunk is the distance between chunks.
template <typename T, int R, int V>
HWY_INLINE void MultiplyChunks(Accumulators<T, R, V>& acc, const T* a, int64_t a_chunk, const T* b, int64_t depth,
                               Prefetch& prefetch) {
  constexpr int64_t kWidth = V * kLanes<T>;
  for (; depth > 0; depth -= kChunk, a += a_chunk) {
    const T* const end = b + std::min<int64_t>(depth, kChunk) * kWidth;
    const T* a_k = a;
    while (b != end) {
      prefetch.PrefetchShare();
      const T* const group_end = std::min(end, b + Prefetch::kGroup * kWidth);
      for (; b != group_end; b += kWidth, ++a_k) acc.template Step<kChunk>(a_k, b);
    }
  }
}

// The same with A in steps, [depth][R].
template <typename T, int R, int V>
HWY_INLINE void MultiplySteps(Accumulators<T, R, V>& acc, const T* a, const T* b, int64_t depth, Prefetch& prefetch) {
  constexpr int64_t kWidth = V * kLanes<T>;
  const T* const end = b + depth * kWidth;
  while (b != end) {
    prefetch.PrefetchShare();
    const T* const group_end = std::min(end, b + Prefetch::kGroup * kWidth);
    for (; b != group_end; b += kWidth, a += R) acc.template Step<1>(a, b);
  }
}

// Copies `rows` rows of `depth` elements into the chunks of MultiplyChunks.
template <typename T>
HWY_INLINE void CopyToChunks(const T* a, int64_t stride, int rows, int64_t depth, T* chunks) {
  const Tag<T> d;
  for (int64_t k = 0; k < depth; k += kChunk) {
    const int64_t count = std::min<int64_t>(kChunk, depth - k);
    for (int r = 0; r < rows; ++r, chunks += kChunk) {
      const T* from = a + r * stride + k;
      int64_t i = 0;
      for (; i + kLanes<T> <= count; i += kLanes<T>) hn::StoreU(hn::LoadU(d, from + i), d, chunks + i);
      for (; i < count; ++i) chunks[i] = from[i];
    }
  }
}

// f.operator()<R>() for a runtime number of rows, 1 or kLeast … kTileRows.
template <int kLeast = 1, class F>
HWY_INLINE void ForRows(int rows, F&& f) {
  static_assert(kTileRows <= 13);
#define QKV_ROWS(R)                                                                      \
  case R:                                                                                \
    if constexpr (R == 1 || (kLeast <= R && R <= kTileRows)) f.template operator()<R>(); \
    break;
  switch (rows) {
    QKV_ROWS(1)
    QKV_ROWS(2)
    QKV_ROWS(3)
    QKV_ROWS(4)
    QKV_ROWS(5)
    QKV_ROWS(6) QKV_ROWS(7) QKV_ROWS(8) QKV_ROWS(9) QKV_ROWS(10) QKV_ROWS(11) QKV_ROWS(12) QKV_ROWS(13)
  }
#undef QKV_ROWS
}

// Division of rows into the fewest tiles, as even as possible: 197 rows are 16 tiles of 12 or 13, not 15 of 13 and one
// of 2. From kHalfTile rows on no tile has fewer than kHalfTile.
inline constexpr int kHalfTile = (kTileRows + 1) / 2;
struct RowTiles {
  explicit RowTiles(int64_t total, int64_t most = kTileRows)
      : rows(total),
        count((total + most - 1) / most),
        least(total / std::max<int64_t>(1, count)),
        larger(total - least * count) {}
  // Without a division, which would take as long as several steps of a tile.
  int64_t begin(int64_t tile) const { return tile * least + std::min(tile, larger); }
  int size(int64_t tile) const { return static_cast<int>(least + (tile < larger)); }
  int64_t rows, count;
  int64_t least, larger;  // least rows of a tile; number of tiles with one more
};

// Fewer than kHalfTile rows become tiles of one row: half as many kernels to compile, for rare cases.
struct AttentionTiles : RowTiles {
  explicit AttentionTiles(int64_t total) : RowTiles(total, total < kHalfTile ? 1 : kTileRows) {}
};

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#endif  // QKV_SIMD_TILE_INL_H_
