#include "qkv/simd/rows/elementwise.h"

#include <cmath>

#include "qkv/simd/isa.h"
#include "qkv/simd/rows/reference.h"
#include "qkv/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/simd/rows/elementwise.cc"
#include "hwy/foreach_target.h"
//
#include "qkv/simd/dispatch.h"
#include "qkv/simd/math-inl.h"
#include "qkv/simd/rows/activation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {
namespace {

// y[i] = f(x[i]); the remainder uses the same code, so a value does not depend on its position.
template <typename T, class F>
HWY_INLINE void Map(const T* x, T* y, int64_t n, F f) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(hn::LoadU(d, x + i)), d, y + i);
  if (i < n) StoreSome(d, f(LoadSome(d, x + i, n - i)), y + i, n - i);
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

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::simd {

HWY_EXPORT(ActivateFloat);

template <>
void Activate(Activation activation, const float* x, float* y, int64_t n) {
  QKV_DISPATCH(ActivateFloat)(activation, x, y, n);
}
template <>
void Activate(Activation activation, const double* x, double* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = reference::Activate(activation, x[i]);
}

}  // namespace qkv::simd
#endif  // HWY_ONCE
