#include "qkv/simd/rows/dot_rows.h"

#include "hwy/cache_control.h"
#include "qkv/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/simd/rows/dot_rows.cc"
#include "hwy/foreach_target.h"
//
#include "qkv/simd/dispatch.h"
#include "qkv/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {
namespace {

using D1 = hn::ScalableTag<float>;
using Vector = hn::Vec<D1>;

// Eight sums or more hide the latency of multiply-adds. Four rows by one query, or two rows by four queries, and their
// squares fit the sixteen registers of AVX2.
constexpr int kRows = 4, kQueries = 4;

// The sums of R rows and Q queries while their elements pass. One sum per pair, so that no result depends on R and Q.
template <int R, int Q>
struct DotSums {
  Vector dots[R][Q], squares[R];
};

// Adds the vectors of elements at `place`.
template <int R, int Q, bool kSquares, class Place>
HWY_INLINE void AddProducts(Place place, const float* rows, int64_t row_stride, const float* queries,
                            int64_t query_stride, DotSums<R, Q>& sums) {
  Vector x[R];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) x[r] = place.Load(rows + r * row_stride);
#pragma GCC unroll 4
  for (int q = 0; q < Q; ++q) {
    const Vector y = place.Load(queries + q * query_stride);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) sums.dots[r][q] = hn::MulAdd(x[r], y, sums.dots[r][q]);
  }
  if constexpr (kSquares) {
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) sums.squares[r] = hn::MulAdd(x[r], x[r], sums.squares[r]);
  }
}

// R rows by Q queries; squares too if they are wanted.
template <int R, int Q, bool kSquares>
HWY_INLINE void DotTile(View<const float> rows, int64_t r0, View<const float> queries, int64_t q0, View<float> dots,
                        float* squares) {
  const D1 d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d)), D = rows.dim(1);
  const float *const x = rows.row(r0), *const y = queries.row(q0);
  const int64_t x_stride = rows.stride(0), y_stride = queries.stride(0);
  DotSums<R, Q> sums;
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    sums.squares[r] = hn::Zero(d);
#pragma GCC unroll 4
    for (int q = 0; q < Q; ++q) sums.dots[r][q] = hn::Zero(d);
  }
  // The rows of the next group: hardware prefetches too late where every row is a stream of its own (measured: 17 to 22
  // GB/s on two cores that read at 25).
  const float* const next = r0 + kRows + R <= rows.dim(0) ? rows.row(r0 + kRows) : x;
  int64_t i = 0;
  for (; i + lanes <= D; i += lanes) {
    if constexpr (kSquares) {  // the tile that reads from memory
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) hwy::Prefetch(next + r * x_stride + i);
    }
    AddProducts<R, Q, kSquares>(WholeVector<float>{i}, x, x_stride, y, y_stride, sums);
  }
  if (i < D) AddProducts<R, Q, kSquares>(PartOfVector<float>{i, D - i}, x, x_stride, y, y_stride, sums);
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int q = 0; q < Q; ++q) *dots.at(q0 + q, r0 + r) = hn::GetLane(hn::SumOfLanes(d, sums.dots[r][q]));
    if constexpr (kSquares) squares[r0 + r] = hn::GetLane(hn::SumOfLanes(d, sums.squares[r]));
  }
}

// R rows by all queries. The squares come with the first tile, so that the rows are read from memory once.
template <int R>
HWY_INLINE void DotGroup(View<const float> rows, int64_t r, View<const float> queries, View<float> dots,
                         float* squares) {
  constexpr int kHalf = (R + 1) / 2;
  const int64_t Q = queries.dim(0);
  int64_t q = 0;
  for (; q + kQueries <= Q; q += kQueries) {
    for (int64_t half = r; half < r + R; half += kHalf) {
      if (q == 0) {
        DotTile<kHalf, kQueries, true>(rows, half, queries, q, dots, squares);
      } else {
        DotTile<kHalf, kQueries, false>(rows, half, queries, q, dots, squares);
      }
    }
  }
  for (; q < Q; ++q) {
    if (q == 0) {
      DotTile<R, 1, true>(rows, r, queries, q, dots, squares);
    } else {
      DotTile<R, 1, false>(rows, r, queries, q, dots, squares);
    }
  }
}

}  // namespace

void DotRowsFloat(View<const float> rows, View<const float> queries, View<float> dots, float* squares) {
  const int64_t R = rows.dim(0);
  int64_t r = 0;
  for (; r + kRows <= R; r += kRows) DotGroup<kRows>(rows, r, queries, dots, squares);
  for (; r < R; ++r) DotGroup<1>(rows, r, queries, dots, squares);
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::simd {

HWY_EXPORT(DotRowsFloat);

void DotRows(View<const float> rows, View<const float> queries, View<float> dots, float* squares) {
  const bool fits = rows.rank() == 2 && queries.rank() == 2 && queries.dim(0) >= 1 && rows.dim(1) == queries.dim(1) &&
                    dots.shape() == Shape({queries.dim(0), rows.dim(0)});
  Require(fits, "dot products of rows: expected [R, D], [Q, D] and [Q, R], got {}, {} and {}", rows.shape(),
          queries.shape(), dots.shape());
  QKV_DISPATCH(DotRowsFloat)(rows, queries, dots, squares);
}

}  // namespace qkv::simd
#endif  // HWY_ONCE
