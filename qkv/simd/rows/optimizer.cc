#include "qkv/simd/rows/optimizer.h"

#include <cmath>

#include "qkv/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/simd/rows/optimizer.cc"
#include "hwy/foreach_target.h"
//
#include "qkv/simd/dispatch.h"
#include "qkv/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {
namespace {

// One step over vectors of any lane type: f(load, store), where store(v, p) writes what load(p) reads. The remainder
// uses the same code, so a value does not depend on its position.
template <class F>
HWY_INLINE void ForVectors(int64_t n, F f) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    f([d, i](const float* p) HWY_ATTR { return hn::LoadU(d, p + i); },
      [d, i](auto v, float* p) HWY_ATTR { hn::StoreU(v, d, p + i); });
  }
  if (const int64_t rest = n - i; rest > 0) {
    f([d, i, rest](const float* p) HWY_ATTR { return LoadSome(d, p + i, static_cast<size_t>(rest)); },
      [d, i, rest](auto v, float* p) HWY_ATTR { StoreSome(d, v, p + i, static_cast<size_t>(rest)); });
  }
}

}  // namespace

void AdamWFloat(const AdamWFactors<float>& factors, const float* g, float* m, float* v, float* w, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto gradient = hn::Set(d, factors.gradient), rate1 = hn::Set(d, factors.rate1);
  const auto beta2 = hn::Set(d, factors.beta2), rate2 = hn::Set(d, factors.rate2), keep = hn::Set(d, factors.keep);
  const auto step = hn::Set(d, factors.step), eps = hn::Set(d, factors.eps);
  const auto correction = hn::Set(d, 1 / factors.root_correction);
  ForVectors(n, [=](auto load, auto store) HWY_ATTR {
    const auto scaled = hn::Mul(load(g), gradient), first = load(m);
    const auto m_next = hn::MulAdd(rate1, hn::Sub(scaled, first), first);
    const auto v_next = hn::MulAdd(hn::Mul(rate2, scaled), scaled, hn::Mul(beta2, load(v)));
    const auto direction = hn::Div(m_next, hn::MulAdd(hn::Sqrt(v_next), correction, eps));
    store(m_next, m);
    store(v_next, v);
    store(hn::NegMulAdd(step, direction, hn::Mul(keep, load(w))), w);
  });
}

void SgdFloat(const SgdFactors<float>& factors, const float* g, float* m, float* w, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto gradient = hn::Set(d, factors.gradient), decay = hn::Set(d, factors.decay);
  const auto momentum = hn::Set(d, factors.momentum), learning_rate = hn::Set(d, factors.learning_rate);
  const bool nesterov = factors.nesterov;
  ForVectors(n, [=](auto load, auto store) HWY_ATTR {
    const auto weight = load(w), direction = hn::MulAdd(decay, weight, hn::Mul(load(g), gradient));
    const auto m_next = hn::MulAdd(momentum, load(m), direction);
    store(m_next, m);
    store(hn::NegMulAdd(learning_rate, nesterov ? hn::MulAdd(momentum, m_next, direction) : m_next, weight), w);
  });
}

void UpdateAverageFloat(float rate, const float* w, float* average, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto vrate = hn::Set(d, rate);
  ForVectors(n, [=](auto load, auto store) HWY_ATTR {
    const auto before = load(average);
    store(hn::MulAdd(vrate, hn::Sub(load(w), before), before), average);
  });
}

void AddToFloat(const float* x, float* sum, int64_t n) {
  ForVectors(n, [=](auto load, auto store) HWY_ATTR { store(hn::Add(load(sum), load(x)), sum); });
}

double SumOfSquaresFloat(const float* x, int64_t n) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> half;  // as many floats as there are doubles in a vector
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  // Four sums hide the latency of addition.
  auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  const auto add_square = [d](auto v, auto sum) HWY_ATTR {
    const auto wide = hn::PromoteTo(d, v);
    return hn::MulAdd(wide, wide, sum);
  };
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    sum0 = add_square(hn::LoadU(half, x + i), sum0);
    sum1 = add_square(hn::LoadU(half, x + i + lanes), sum1);
    sum2 = add_square(hn::LoadU(half, x + i + 2 * lanes), sum2);
    sum3 = add_square(hn::LoadU(half, x + i + 3 * lanes), sum3);
  }
  for (; i + lanes <= n; i += lanes) sum0 = add_square(hn::LoadU(half, x + i), sum0);
  if (i < n) sum1 = add_square(LoadSome(half, x + i, static_cast<size_t>(n - i)), sum1);
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3))));
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::simd {

HWY_EXPORT(AdamWFloat);
HWY_EXPORT(SgdFloat);
HWY_EXPORT(UpdateAverageFloat);
HWY_EXPORT(AddToFloat);
HWY_EXPORT(SumOfSquaresFloat);

template <>
void AdamW(const AdamWFactors<float>& factors, const float* g, float* m, float* v, float* w, int64_t n) {
  QKV_DISPATCH(AdamWFloat)(factors, g, m, v, w, n);
}
template <>
void AdamW(const AdamWFactors<double>& f, const double* g, double* m, double* v, double* w, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const double scaled = f.gradient * g[i];
    m[i] += f.rate1 * (scaled - m[i]);
    v[i] = f.beta2 * v[i] + f.rate2 * scaled * scaled;
    w[i] = f.keep * w[i] - f.step * m[i] / (std::sqrt(v[i]) / f.root_correction + f.eps);
  }
}

template <>
void Sgd(const SgdFactors<float>& factors, const float* g, float* m, float* w, int64_t n) {
  QKV_DISPATCH(SgdFloat)(factors, g, m, w, n);
}
template <>
void Sgd(const SgdFactors<double>& f, const double* g, double* m, double* w, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const double direction = f.gradient * g[i] + f.decay * w[i];
    m[i] = f.momentum * m[i] + direction;
    w[i] -= f.learning_rate * (f.nesterov ? direction + f.momentum * m[i] : m[i]);
  }
}

template <>
void UpdateAverage(float rate, const float* w, float* average, int64_t n) {
  QKV_DISPATCH(UpdateAverageFloat)(rate, w, average, n);
}
template <>
void UpdateAverage(double rate, const double* w, double* average, int64_t n) {
  for (int64_t i = 0; i < n; ++i) average[i] += rate * (w[i] - average[i]);
}

template <>
void AddTo(const float* x, float* sum, int64_t n) {
  QKV_DISPATCH(AddToFloat)(x, sum, n);
}
template <>
void AddTo(const double* x, double* sum, int64_t n) {
  for (int64_t i = 0; i < n; ++i) sum[i] += x[i];
}

template <>
double SumOfSquares(const float* x, int64_t n) {
  return QKV_DISPATCH(SumOfSquaresFloat)(x, n);
}
template <>
double SumOfSquares(const double* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return sum;
}

}  // namespace qkv::simd
#endif  // HWY_ONCE
