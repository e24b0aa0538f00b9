#include "qkv/simd/elementwise.h"

#include <cmath>

#include "qkv/simd/isa.h"
#include "qkv/simd/reference.h"
#include "qkv/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/simd/elementwise.cc"
#include "hwy/foreach_target.h"
//
#include "qkv/simd/activation-inl.h"
#include "qkv/simd/dispatch.h"
#include "qkv/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {
namespace {

// y[i] = f(x[i]), the rest of the last vector through the same code, so that a value's place does not change it.
template <typename T, class F>
HWY_INLINE void Map(const T* x, T* y, int64_t n, F f) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(hn::LoadU(d, x + i)), d, y + i);
  if (i < n) StoreSome(d, f(LoadSome(d, x + i, n - i)), y + i, n - i);
}

template <typename T, class F>
HWY_INLINE void Map2(const T* a, const T* b, T* y, int64_t n, F f) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, y + i);
  if (i < n) StoreSome(d, f(LoadSome(d, a + i, n - i), LoadSome(d, b + i, n - i)), y + i, n - i);
}

template <Activation kActivation>
HWY_NOINLINE void ActivateAll(const float* x, float* y, int64_t n) {
  const hn::ScalableTag<float> d;
  Map(x, y, n, [d](auto v) HWY_ATTR { return ActivateVector<kActivation>(d, v); });
}

}  // namespace

void ActivateFloat(Activation activation, const float* x, float* y, int64_t n) {
  switch (activation) {
    case Activation::kNone:
      return ActivateAll<Activation::kNone>(x, y, n);
    case Activation::kGelu:
      return ActivateAll<Activation::kGelu>(x, y, n);
    case Activation::kGeluTanh:
      return ActivateAll<Activation::kGeluTanh>(x, y, n);
    case Activation::kQuickGelu:
      return ActivateAll<Activation::kQuickGelu>(x, y, n);
    case Activation::kRelu:
      return ActivateAll<Activation::kRelu>(x, y, n);
    case Activation::kSilu:
      return ActivateAll<Activation::kSilu>(x, y, n);
    case Activation::kTanh:
      return ActivateAll<Activation::kTanh>(x, y, n);
  }
}

void SwiGluFloat(const float* gate, const float* value, float* y, int64_t n) {
  const hn::ScalableTag<float> d;
  Map2(gate, value, y, n, [d](auto g, auto v) HWY_ATTR { return hn::Mul(ActivateVector<Activation::kSilu>(d, g), v); });
}

void AddFloat(const float* x, float* y, int64_t n) {
  Map2(x, y, y, n, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
}

void AddDouble(const double* x, double* y, int64_t n) {
  Map2(x, y, y, n, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
}

void WidenHalf(const Half* x, float* y, int64_t n) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* half = reinterpret_cast<const hwy::float16_t*>(x);
  int64_t i = 0;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::PromoteTo(d, hn::LoadU(dh, half + i)), d, y + i);
#endif
  (void)dh, (void)lanes, (void)half;
  for (; i < n; ++i) y[i] = ToFloat(x[i]);
}

void WidenBFloat16(const BFloat16* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = ToFloat(x[i]);  // a shift: compilers vectorise it
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::simd {

HWY_EXPORT(ActivateFloat);
HWY_EXPORT(SwiGluFloat);
HWY_EXPORT(AddFloat);
HWY_EXPORT(AddDouble);
HWY_EXPORT(WidenHalf);
HWY_EXPORT(WidenBFloat16);

template <>
void Activate(Activation activation, const float* x, float* y, int64_t n) {
  QKV_DISPATCH(ActivateFloat)(activation, x, y, n);
}
template <>
void Activate(Activation activation, const double* x, double* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = reference::Activate(activation, x[i]);
}

template <>
void SwiGlu(const float* gate, const float* value, float* y, int64_t n) {
  QKV_DISPATCH(SwiGluFloat)(gate, value, y, n);
}
template <>
void SwiGlu(const double* gate, const double* value, double* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = reference::Activate(Activation::kSilu, gate[i]) * value[i];
}

template <>
void Add(const float* x, float* y, int64_t n) {
  QKV_DISPATCH(AddFloat)(x, y, n);
}
template <>
void Add(const double* x, double* y, int64_t n) {
  QKV_DISPATCH(AddDouble)(x, y, n);
}

void Widen(const Half* x, float* y, int64_t n) { QKV_DISPATCH(WidenHalf)(x, y, n); }
void Widen(const BFloat16* x, float* y, int64_t n) { QKV_DISPATCH(WidenBFloat16)(x, y, n); }

}  // namespace qkv::simd
#endif  // HWY_ONCE
