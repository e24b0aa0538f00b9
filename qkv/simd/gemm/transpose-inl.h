// Transposition between rows in memory and vectors whose lanes are rows: blocks of 128 bits are loaded into place and
// then transposed internally.

#if defined(QKV_SIMD_GEMM_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_SIMD_GEMM_TRANSPOSE_INL_H_
#undef QKV_SIMD_GEMM_TRANSPOSE_INL_H_
#else
#define QKV_SIMD_GEMM_TRANSPOSE_INL_H_
#endif

#include <cstdint>

#include "qkv/simd/gemm/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {

// Elements of a 128-bit block (1 without vectors).
template <typename T>
inline constexpr int kBlock = kLanes<T> == 1 ? 1 : 16 / static_cast<int>(sizeof(T));

#if HWY_TARGET == HWY_SCALAR
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadBlocks(D d, const T* const* rows, int64_t offset) {
  return hn::LoadU(d, rows[0] + offset);
}
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void StoreBlocks(D d, hn::Vec<D> v, T* const* rows, int64_t offset) {
  hn::StoreU(v, d, rows[0] + offset);
}
template <typename T>
HWY_INLINE void TransposeBlocks(Vector<T> (&)[1]) {}
#else
// Block b is rows[b · kBlock][offset …].
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadBlocks(D d, const T* const* rows, int64_t offset) {
  if constexpr (hn::MaxLanes(d) == kBlock<T>) {
    return hn::LoadU(d, rows[0] + offset);
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, LoadBlocks(half, rows + hn::MaxLanes(half), offset), LoadBlocks(half, rows, offset));
  }
}
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void StoreBlocks(D d, hn::Vec<D> v, T* const* rows, int64_t offset) {
  if constexpr (hn::MaxLanes(d) == kBlock<T>) {
    hn::StoreU(v, d, rows[0] + offset);
  } else {
    const hn::Half<D> half;
    StoreBlocks(half, hn::LowerHalf(half, v), rows, offset);
    StoreBlocks(half, hn::UpperHalf(half, v), rows + hn::MaxLanes(half), offset);
  }
}

// Transposes each block across the kBlock vectors.
template <typename T>
HWY_INLINE void TransposeBlocks(Vector<T> (&v)[kBlock<T>]) {
  const Tag<T> d;
  if constexpr (kBlock<T> == 2) {
    const auto t = hn::InterleaveLower(d, v[0], v[1]);
    v[1] = hn::InterleaveUpper(d, v[0], v[1]);
    v[0] = t;
  } else if constexpr (kBlock<T> == 4) {
    const hn::RepartitionToWide<Tag<T>> dw;
    const auto lower01 = hn::BitCast(dw, hn::InterleaveLower(d, v[0], v[1]));
    const auto upper01 = hn::BitCast(dw, hn::InterleaveUpper(d, v[0], v[1]));
    const auto lower23 = hn::BitCast(dw, hn::InterleaveLower(d, v[2], v[3]));
    const auto upper23 = hn::BitCast(dw, hn::InterleaveUpper(d, v[2], v[3]));
    v[0] = hn::BitCast(d, hn::InterleaveLower(dw, lower01, lower23));
    v[1] = hn::BitCast(d, hn::InterleaveUpper(dw, lower01, lower23));
    v[2] = hn::BitCast(d, hn::InterleaveLower(dw, upper01, upper23));
    v[3] = hn::BitCast(d, hn::InterleaveUpper(dw, upper01, upper23));
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

// out[i][lane] = factor · rows[lane][i] for i < n, with `stride` elements from out[i] to out[i + 1].
template <typename T>
HWY_INLINE void TransposeIn(const T* const* rows, int64_t n, T factor, T* out, int64_t stride) {
  const Tag<T> d;
  const auto vfactor = hn::Set(d, factor);
  int64_t i = 0;
  for (; i + kBlock<T> <= n; i += kBlock<T>) {
    Vector<T> v[kBlock<T>];
#pragma GCC unroll 4
    for (int b = 0; b < kBlock<T>; ++b) v[b] = LoadBlocks(d, rows + b, i);
    TransposeBlocks<T>(v);
#pragma GCC unroll 4
    for (int b = 0; b < kBlock<T>; ++b) hn::StoreU(hn::Mul(v[b], vfactor), d, out + (i + b) * stride);
  }
  for (; i < n; ++i) {
    for (int lane = 0; lane < kLanes<T>; ++lane) out[i * stride + lane] = rows[lane][i] * factor;
  }
}

// rows[lane][i] = in[i][lane] for i < n.
template <typename T>
HWY_INLINE void TransposeOut(const T* in, int64_t stride, int64_t n, T* const* rows) {
  const Tag<T> d;
  int64_t i = 0;
  for (; i + kBlock<T> <= n; i += kBlock<T>) {
    Vector<T> v[kBlock<T>];
#pragma GCC unroll 4
    for (int b = 0; b < kBlock<T>; ++b) v[b] = hn::LoadU(d, in + (i + b) * stride);
    TransposeBlocks<T>(v);
#pragma GCC unroll 4
    for (int b = 0; b < kBlock<T>; ++b) StoreBlocks(d, v[b], rows + b, i);
  }
  for (; i < n; ++i) {
    for (int lane = 0; lane < kLanes<T>; ++lane) rows[lane][i] = in[i * stride + lane];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#endif  // QKV_SIMD_GEMM_TRANSPOSE_INL_H_
