// Sums over a row and its LayerNorm moments: for rows.cc, and for products that normalise rows while reading them.

#if defined(QKV_SIMD_ROW_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_SIMD_ROW_SUMS_INL_H_
#undef QKV_SIMD_ROW_SUMS_INL_H_
#else
#define QKV_SIMD_ROW_SUMS_INL_H_
#endif

#include <cmath>

#include "qkv/simd/math-inl.h"
#include "qkv/simd/rows/elementwise.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {
namespace {

// Σ f(x[i]), in an order that depends only on n and the vector width. Four sums hide the latency of addition and are
// shorter.
template <typename T, class F>
HWY_INLINE T Sum(const T* x, int64_t n, F f) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    sum0 = hn::Add(sum0, f(hn::LoadU(d, x + i)));
    sum1 = hn::Add(sum1, f(hn::LoadU(d, x + i + lanes)));
    sum2 = hn::Add(sum2, f(hn::LoadU(d, x + i + 2 * lanes)));
    sum3 = hn::Add(sum3, f(hn::LoadU(d, x + i + 3 * lanes)));
  }
  for (; i + lanes <= n; i += lanes) sum0 = hn::Add(sum0, f(hn::LoadU(d, x + i)));
  if (i < n) {
    const auto some = hn::FirstN(d, n - i);
    sum1 = hn::Add(sum1, hn::IfThenElseZero(some, f(LoadSome(d, x + i, n - i))));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3))));
}

template <typename T>
struct Moments {
  T mean, rstd;
};

template <typename T>
HWY_INLINE Moments<T> ComputeMoments(const T* x, int64_t D, const NormRule<T>& rule) {
  const hn::ScalableTag<T> d;
  T mean = 0;
  if (rule.kind == NormKind::kLayer) mean = Sum(x, D, [](auto v) HWY_ATTR { return v; }) / static_cast<T>(D);
  const auto vmean = hn::Set(d, mean);
  const T squares = Sum(x, D, [vmean](auto v) HWY_ATTR {
    const auto centred = hn::Sub(v, vmean);
    return hn::Mul(centred, centred);
  });
  // squares − squares: 0, but NaN if the sum overflowed. Otherwise 1 / infinity = 0 would make overflowed rows look
  // like rows of equal features.
  return {mean, T{1} / std::sqrt(squares / static_cast<T>(D) + rule.eps) + (squares - squares)};
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#endif  // QKV_SIMD_ROW_SUMS_INL_H_
