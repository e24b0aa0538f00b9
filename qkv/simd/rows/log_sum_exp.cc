#include "qkv/simd/rows/log_sum_exp.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "qkv/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/simd/rows/log_sum_exp.cc"
#include "hwy/foreach_target.h"
//
#include "qkv/simd/dispatch.h"
#include "qkv/simd/math-inl.h"
#include "qkv/simd/rows/row_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {

float GreatestEntry(const float* x, int64_t n) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto low = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto max0 = low, max1 = low;
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    max0 = hn::Max(hn::LoadU(d, x + i), max0), max1 = hn::Max(hn::LoadU(d, x + i + lanes), max1);
  }
  float max = hn::GetLane(hn::MaxOfLanes(d, hn::Max(max0, max1)));
  for (; i < n; ++i) max = std::max(max, x[i]);
  return max;
}

// Σ exp(x[i] − shift), in pieces whose float sums are short.
double SumOfExp(const float* x, int64_t n, float shift) {
  constexpr int64_t kPiece = 1024;
  const hn::ScalableTag<float> d;
  const auto vshift = hn::Set(d, shift);
  double sum = 0;
  for (int64_t i = 0; i < n; i += kPiece) {
    sum += Sum(x + i, std::min(kPiece, n - i), [&](auto v) HWY_ATTR { return Exp(d, hn::Sub(v, vshift)); });
  }
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::simd {

HWY_EXPORT(GreatestEntry);
HWY_EXPORT(SumOfExp);

float RowMax(const float* x, int64_t n) { return QKV_DISPATCH(GreatestEntry)(x, n); }

float LogSumExp(const float* x, int64_t n) {
  const float max = RowMax(x, n);
  if (max == -std::numeric_limits<float>::infinity()) return max;
  return max + static_cast<float>(std::log(QKV_DISPATCH(SumOfExp)(x, n, max)));
}

}  // namespace qkv::simd
#endif  // HWY_ONCE
