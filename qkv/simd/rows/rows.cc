// Norms and softmax: sums over a row, then one pass over it.
#include <limits>

#include "qkv/simd/rows/elementwise.h"
#include "qkv/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/simd/rows/rows.cc"
#include "hwy/foreach_target.h"
//
#include "qkv/simd/dispatch.h"
#include "qkv/simd/math-inl.h"
#include "qkv/simd/rows/row_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {
namespace {

// y = (x − mean) · factor · gamma + beta; gamma, beta or both may be null.
template <typename T>
HWY_INLINE void NormaliseRow(const T* x, T mean, T factor, const T* gamma, const T* beta, T* y, int64_t n) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto vmean = hn::Set(d, mean), vfactor = hn::Set(d, factor);
  const auto finish = [&](auto v, auto g, auto b) HWY_ATTR {
    v = hn::Mul(hn::Sub(v, vmean), vfactor);
    if (gamma && beta) return hn::MulAdd(v, g, b);
    if (gamma) return hn::Mul(v, g);
    return beta ? hn::Add(v, b) : v;
  };
  const auto zero = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto g = gamma ? hn::LoadU(d, gamma + i) : zero, b = beta ? hn::LoadU(d, beta + i) : zero;
    hn::StoreU(finish(hn::LoadU(d, x + i), g, b), d, y + i);
  }
  if (const int64_t rest = n - i; rest > 0) {
    const auto g = gamma ? LoadSome(d, gamma + i, rest) : zero, b = beta ? LoadSome(d, beta + i, rest) : zero;
    StoreSome(d, finish(LoadSome(d, x + i, rest), g, b), y + i, rest);
  }
}

template <typename T>
HWY_INLINE void NormsOfRows(const T* x, int64_t x_stride, int64_t rows, int64_t D, const T* gamma, const T* beta,
                            const NormRule<T>& rule, T* y, int64_t y_stride) {
  for (int64_t r = 0; r < rows; ++r, x += x_stride, y += y_stride) {
    const Moments<T> moments = ComputeMoments(x, D, rule);
    NormaliseRow(x, moments.mean, moments.rstd, gamma, beta, y, D);
  }
}

template <typename T>
HWY_INLINE void NormaliseRows(const T* x, int64_t x_stride, int64_t rows, int64_t D, const T* moments, const T* gamma,
                              const T* beta, T* y, int64_t y_stride) {
  for (int64_t r = 0; r < rows; ++r, x += x_stride, y += y_stride, moments += 2) {
    NormaliseRow(x, moments[0], moments[1], gamma, beta, y, D);
  }
}

template <typename T>
HWY_INLINE void MomentsOfRows(const T* x, int64_t x_stride, int64_t rows, int64_t D, const NormRule<T>& rule, T* to) {
  for (int64_t r = 0; r < rows; ++r, x += x_stride, to += 2) {
    const Moments<T> moments = ComputeMoments(x, D, rule);
    to[0] = moments.mean, to[1] = moments.rstd;
  }
}

HWY_INLINE float MaxElement(const float* x, int64_t n) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto low = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto max = low;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) max = hn::Max(hn::LoadU(d, x + i), max);
  if (i < n) max = hn::Max(hn::IfThenElse(hn::FirstN(d, n - i), LoadSome(d, x + i, n - i), low), max);
  return hn::GetLane(hn::MaxOfLanes(d, max));
}

}  // namespace

void SoftmaxFloat(float* x, int64_t n) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  float max = MaxElement(x, n);
  if (max == kInfinity) {  // entries of +infinity share the weight
    for (int64_t i = 0; i < n; ++i) x[i] = x[i] == kInfinity ? 0 : (std::isnan(x[i]) ? x[i] : -kInfinity);
    max = 0;
  }
  if (max == -kInfinity) max = 0;  // e^(−inf − 0): zeros, and no −inf − −inf
  const auto vmax = hn::Set(d, max);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(Exp(d, hn::Sub(hn::LoadU(d, x + i), vmax)), d, x + i);
  if (i < n) StoreSome(d, Exp(d, hn::Sub(LoadSome(d, x + i, n - i), vmax)), x + i, n - i);
  const float sum = Sum(x, n, [](auto v) HWY_ATTR { return v; });
  if (sum == 0) return;
  const auto vsum = hn::Set(d, sum);
  i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Div(hn::LoadU(d, x + i), vsum), d, x + i);
  if (i < n) StoreSome(d, hn::Div(LoadSome(d, x + i, n - i), vsum), x + i, n - i);
}

void NormRowsFloat(const float* x, int64_t x_stride, int64_t rows, int64_t D, const float* gamma, const float* beta,
                   const NormRule<float>& rule, float* y, int64_t y_stride) {
  NormsOfRows(x, x_stride, rows, D, gamma, beta, rule, y, y_stride);
}
void NormRowsDouble(const double* x, int64_t x_stride, int64_t rows, int64_t D, const double* gamma, const double* beta,
                    const NormRule<double>& rule, double* y, int64_t y_stride) {
  NormsOfRows(x, x_stride, rows, D, gamma, beta, rule, y, y_stride);
}

void RowMomentsFloat(const float* x, int64_t x_stride, int64_t rows, int64_t D, const NormRule<float>& rule,
                     float* moments) {
  MomentsOfRows(x, x_stride, rows, D, rule, moments);
}
void RowMomentsDouble(const double* x, int64_t x_stride, int64_t rows, int64_t D, const NormRule<double>& rule,
                      double* moments) {
  MomentsOfRows(x, x_stride, rows, D, rule, moments);
}

void NormaliseFloat(const float* x, int64_t x_stride, int64_t rows, int64_t D, const float* moments, const float* gamma,
                    const float* beta, float* y, int64_t y_stride) {
  NormaliseRows(x, x_stride, rows, D, moments, gamma, beta, y, y_stride);
}
void NormaliseDouble(const double* x, int64_t x_stride, int64_t rows, int64_t D, const double* moments,
                     const double* gamma, const double* beta, double* y, int64_t y_stride) {
  NormaliseRows(x, x_stride, rows, D, moments, gamma, beta, y, y_stride);
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "qkv/simd/rows/reference.h"

namespace qkv::simd {

HWY_EXPORT(SoftmaxFloat);
HWY_EXPORT(NormRowsFloat);
HWY_EXPORT(NormRowsDouble);
HWY_EXPORT(RowMomentsFloat);
HWY_EXPORT(RowMomentsDouble);
HWY_EXPORT(NormaliseFloat);
HWY_EXPORT(NormaliseDouble);

template <>
void NormRows(const float* x, int64_t x_stride, int64_t rows, int64_t D, const float* gamma, const float* beta,
              const NormRule<float>& rule, float* y, int64_t y_stride) {
  QKV_DISPATCH(NormRowsFloat)(x, x_stride, rows, D, gamma, beta, rule, y, y_stride);
}
template <>
void NormRows(const double* x, int64_t x_stride, int64_t rows, int64_t D, const double* gamma, const double* beta,
              const NormRule<double>& rule, double* y, int64_t y_stride) {
  QKV_DISPATCH(NormRowsDouble)(x, x_stride, rows, D, gamma, beta, rule, y, y_stride);
}

template <>
void RowMoments(const float* x, int64_t x_stride, int64_t rows, int64_t D, const NormRule<float>& rule,
                float* moments) {
  QKV_DISPATCH(RowMomentsFloat)(x, x_stride, rows, D, rule, moments);
}
template <>
void RowMoments(const double* x, int64_t x_stride, int64_t rows, int64_t D, const NormRule<double>& rule,
                double* moments) {
  QKV_DISPATCH(RowMomentsDouble)(x, x_stride, rows, D, rule, moments);
}

template <>
void Normalise(const float* x, int64_t x_stride, int64_t rows, int64_t D, const float* moments, const float* gamma,
               const float* beta, float* y, int64_t y_stride) {
  QKV_DISPATCH(NormaliseFloat)(x, x_stride, rows, D, moments, gamma, beta, y, y_stride);
}
template <>
void Normalise(const double* x, int64_t x_stride, int64_t rows, int64_t D, const double* moments, const double* gamma,
               const double* beta, double* y, int64_t y_stride) {
  QKV_DISPATCH(NormaliseDouble)(x, x_stride, rows, D, moments, gamma, beta, y, y_stride);
}

template <>
void Softmax(float* x, int64_t n) {
  QKV_DISPATCH(SoftmaxFloat)(x, n);
}
template <>
void Softmax(double* x, int64_t n) {
  reference::Softmax(x, n);
}

}  // namespace qkv::simd
#endif  // HWY_ONCE
