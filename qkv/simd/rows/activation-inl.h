// One activation on one vector, for elementwise.cc and for the epilogue of the matrix product.

#if defined(QKV_SIMD_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_SIMD_ACTIVATION_INL_H_
#undef QKV_SIMD_ACTIVATION_INL_H_
#else
#define QKV_SIMD_ACTIVATION_INL_H_
#endif

#include "qkv/simd/math-inl.h"
#include "qkv/simd/rows/elementwise.h"
#include "qkv/simd/rows/reference.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {

template <Activation kActivation, class D, class V = hn::Vec<D>>
requires(sizeof(hn::TFromD<D>) == 4) HWY_INLINE V ActivateVector(D d, V x) {
  if constexpr (kActivation == Activation::kGelu) {
    return Gelu(d, x);
  } else if constexpr (kActivation == Activation::kGeluTanh) {
    // (1 + tanh y) / 2 is the logistic function of 2y; 2 sqrt(2/π) = 1.5957691.
    const V cubic = hn::MulAdd(hn::Mul(x, x), hn::Set(d, 0.044715f), hn::Set(d, 1.0f));
    return hn::Mul(x, Logistic(d, hn::Mul(hn::Mul(x, cubic), hn::Set(d, 1.5957691216f))));
  } else if constexpr (kActivation == Activation::kQuickGelu) {
    return hn::Mul(x, Logistic(d, hn::Mul(x, hn::Set(d, 1.702f))));
  } else if constexpr (kActivation == Activation::kRelu) {
    return AtLeast(d, x, 0.0f);
  } else if constexpr (kActivation == Activation::kSilu) {
    return hn::Mul(x, Logistic(d, x));
  } else if constexpr (kActivation == Activation::kTanh) {
    return Tanh(d, x);
  } else {
    return x;
  }
}

// double is for gradient checks and qkv/lab: exact through libm, lane by lane.
template <Activation kActivation, class D, class V = hn::Vec<D>>
requires(sizeof(hn::TFromD<D>) == 8) HWY_INLINE V ActivateVector(D d, V x) {
  if constexpr (kActivation == Activation::kNone) return x;
  HWY_ALIGN double lanes[hn::MaxLanes(d)];
  hn::Store(x, d, lanes);
  for (double& lane : lanes) lane = reference::Activate(kActivation, lane);
  return hn::Load(d, lanes);
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#endif  // QKV_SIMD_ACTIVATION_INL_H_
