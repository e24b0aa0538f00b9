// Gradients of the activations and gates, and dropout.
#include "qkv/simd/rows/elementwise_backward.h"

#include "qkv/core/dropout_hash.h"
#include "qkv/simd/rows/reference.h"
#include "qkv/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/simd/rows/elementwise_backward.cc"
#include "hwy/foreach_target.h"
//
#include "qkv/simd/dispatch.h"
#include "qkv/simd/rows/activation-inl.h"
#include "qkv/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {
namespace {

using Tag = hn::ScalableTag<float>;
using Vector = hn::Vec<Tag>;

struct ValueAndSlope {
  Vector value, slope;
};

// The logistic function σ and σ' = σ(t) σ(−t), from exp(−|t|) only, so that nothing cancels.
HWY_INLINE ValueAndSlope LogisticAndSlope(Vector t) {
  const Tag d;
  const auto power = Exp(d, hn::Neg(hn::Abs(t)));
  const auto large = hn::Div(hn::Set(d, 1.0f), hn::Add(power, hn::Set(d, 1.0f)));
  const auto small = hn::Mul(power, large);
  return {hn::IfThenElse(hn::Lt(t, hn::Zero(d)), small, large), hn::Mul(small, large)};
}

// x σ(t(x)), and σ + x σ' t'.
HWY_INLINE ValueAndSlope LogisticGate(Vector x, Vector t, Vector t_slope) {
  const ValueAndSlope logistic = LogisticAndSlope(t);
  return {hn::Mul(x, logistic.value), hn::MulAdd(hn::Mul(x, logistic.slope), t_slope, logistic.value)};
}

// Beyond 20 the other factor is 0 anyway; clamping avoids ∞ · 0.
HWY_INLINE Vector AtMost20(Vector u) { return AtMost(Tag(), u, 20.0f); }

template <Activation kActivation>
HWY_INLINE ValueAndSlope Differentiate(Vector x) {
  const Tag d;
  const auto one = hn::Set(d, 1.0f);
  if constexpr (kActivation == Activation::kGelu) {
    // Φ(x) + x φ(x) is s = Φ(−|x|) − |x| φ(|x|) left of 0, and 1 − s right of it.
    const auto limited = AtMost20(hn::Abs(x));
    const auto tail = NormalTail(d, AtMost(d, limited, NormalTailPieces::kEnd));
    const auto negative = hn::Lt(x, hn::Zero(d));
    // φ(u) = 2^(−u² log2(e)/2) / sqrt(2π)
    const auto power = Exp2Flushed(d, hn::Mul(hn::Mul(limited, limited), hn::Set(d, -0.72134752f)));
    const auto slope = hn::NegMulAdd(hn::Mul(limited, hn::Set(d, 0.39894228f)), power, tail);
    const auto positive = hn::IfThenElse(negative, hn::Zero(d), x);
    return {hn::NegMulAdd(limited, tail, positive), hn::IfThenElse(negative, slope, hn::Sub(one, slope))};
  } else if constexpr (kActivation == Activation::kGeluTanh) {
    const auto square = hn::Mul(x, x);
    const auto cubic = hn::MulAdd(square, hn::Set(d, 0.044715f), one);
    const ValueAndSlope logistic = LogisticAndSlope(hn::Mul(hn::Mul(x, cubic), hn::Set(d, 1.5957691216f)));
    const auto limited = hn::CopySignToAbs(AtMost20(hn::Abs(x)), x);
    const auto limited_slope = hn::MulAdd(hn::Mul(limited, limited), hn::Set(d, 3 * 0.044715f), one);
    const auto factor = hn::Mul(hn::Mul(limited, limited_slope), hn::Set(d, 1.5957691216f));
    return {hn::Mul(x, logistic.value), hn::MulAdd(factor, logistic.slope, logistic.value)};
  } else if constexpr (kActivation == Activation::kQuickGelu) {
    const auto factor = hn::Set(d, 1.702f);
    return LogisticGate(x, hn::Mul(x, factor), factor);
  } else if constexpr (kActivation == Activation::kRelu) {
    const auto off = hn::Le(x, hn::Zero(d));
    return {hn::IfThenElse(off, hn::Zero(d), x), hn::IfThenElse(off, hn::Zero(d), one)};
  } else if constexpr (kActivation == Activation::kSilu) {
    return LogisticGate(x, x, one);
  } else if constexpr (kActivation == Activation::kTanh) {
    const auto tanh = Tanh(d, x);
    return {tanh, hn::NegMulAdd(tanh, tanh, one)};
  } else {
    return {x, one};
  }
}

// f.template operator()<activation>()
template <class F>
HWY_INLINE void ForActivation(Activation activation, F f) {
  switch (activation) {
    case Activation::kNone:
      return f.template operator()<Activation::kNone>();
    case Activation::kGelu:
      return f.template operator()<Activation::kGelu>();
    case Activation::kGeluTanh:
      return f.template operator()<Activation::kGeluTanh>();
    case Activation::kQuickGelu:
      return f.template operator()<Activation::kQuickGelu>();
    case Activation::kRelu:
      return f.template operator()<Activation::kRelu>();
    case Activation::kSilu:
      return f.template operator()<Activation::kSilu>();
    case Activation::kTanh:
      return f.template operator()<Activation::kTanh>();
  }
}

template <Activation kActivation>
HWY_NOINLINE void Gradient(const float* x, const float* dy, float* dx, int64_t n, float* y) {
  ForVectors<float>(0, n, [=](auto at) HWY_ATTR {
    const ValueAndSlope f = Differentiate<kActivation>(at.Load(x));
    at.Store(hn::Mul(at.Load(dy), f.slope), dx);
    if (y) at.Store(f.value, y);
  });
}

template <Activation kActivation>
HWY_NOINLINE void Gated(const float* gate, const float* value, float* y, int64_t n) {
  ForVectors<float>(0, n, [=](auto at) HWY_ATTR {
    at.Store(hn::Mul(ActivateVector<kActivation>(Tag(), at.Load(gate)), at.Load(value)), y);
  });
}

template <Activation kActivation>
HWY_NOINLINE void GradientOfGate(const float* gate, const float* value, const float* dy, float* dgate, float* dvalue,
                                 int64_t n, float* y) {
  ForVectors<float>(0, n, [=](auto at) HWY_ATTR {
    const ValueAndSlope f = Differentiate<kActivation>(at.Load(gate));
    const auto v = at.Load(value), gradient = at.Load(dy);
    at.Store(hn::Mul(hn::Mul(gradient, v), f.slope), dgate);
    at.Store(hn::Mul(gradient, f.value), dvalue);
    if (y) at.Store(hn::Mul(f.value, v), y);
  });
}

}  // namespace

void ActivateGradientFloat(Activation activation, const float* x, const float* dy, float* dx, int64_t n, float* y) {
  ForActivation(activation, [=]<Activation kActivation>() HWY_ATTR { Gradient<kActivation>(x, dy, dx, n, y); });
}
void ApplyGateFloat(Activation activation, const float* gate, const float* value, float* y, int64_t n) {
  ForActivation(activation, [=]<Activation kActivation>() HWY_ATTR { Gated<kActivation>(gate, value, y, n); });
}
void GateGradientFloat(Activation activation, const float* gate, const float* value, const float* dy, float* dgate,
                       float* dvalue, int64_t n, float* y) {
  ForActivation(activation, [=]<Activation kActivation>()
                                HWY_ATTR { GradientOfGate<kActivation>(gate, value, dy, dgate, dvalue, n, y); });
}

void DropEntriesFloat(uint64_t row, int32_t below, float scale, float* x, int64_t n) {
  using Hash = DropoutHash;
  const Tag d;
  const hn::RebindToSigned<Tag> di;
  const hn::RebindToUnsigned<Tag> du;
  const auto low = hn::Set(du, static_cast<uint32_t>(row)), high = hn::Set(du, static_cast<uint32_t>(row >> 32));
  ForVectors<float>(0, n, [=](auto at) HWY_ATTR {  // DropoutHash::Of, one entry per lane
    const auto entries = hn::Iota(du, static_cast<uint32_t>(at.index));
    auto bits = hn::Add(hn::Mul(entries, hn::Set(du, Hash::kKeyStep)), low);
    bits = hn::Mul(hn::Xor(bits, hn::ShiftRight<16>(bits)), hn::Set(du, Hash::kFirst));
    bits = hn::Mul(hn::Add(hn::Xor(bits, hn::ShiftRight<15>(bits)), high), hn::Set(du, Hash::kSecond));
    bits = hn::ShiftRight<1>(hn::Xor(bits, hn::ShiftRight<16>(bits)));
    const auto dropped = hn::RebindMask(d, hn::Lt(hn::BitCast(di, bits), hn::Set(di, below)));
    at.Store(hn::IfThenZeroElse(dropped, hn::Mul(at.Load(x), hn::Set(d, scale))), x);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::simd {

HWY_EXPORT(ActivateGradientFloat);
HWY_EXPORT(ApplyGateFloat);
HWY_EXPORT(GateGradientFloat);
HWY_EXPORT(DropEntriesFloat);

template <>
void ActivateGradient(Activation activation, const float* x, const float* dy, float* dx, int64_t n, float* y) {
  QKV_DISPATCH(ActivateGradientFloat)(activation, x, dy, dx, n, y);
}
template <>
void ActivateGradient(Activation activation, const double* x, const double* dy, double* dx, int64_t n, double* y) {
  for (int64_t i = 0; i < n; ++i) {
    const double at = x[i];
    dx[i] = dy[i] * reference::ActivationSlope(activation, at);
    if (y) y[i] = reference::Activate(activation, at);
  }
}

template <>
void ApplyGate(Activation activation, const float* gate, const float* value, float* y, int64_t n) {
  QKV_DISPATCH(ApplyGateFloat)(activation, gate, value, y, n);
}
template <>
void ApplyGate(Activation activation, const double* gate, const double* value, double* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = reference::Activate(activation, gate[i]) * value[i];
}

template <>
void GateGradient(Activation activation, const float* gate, const float* value, const float* dy, float* dgate,
                  float* dvalue, int64_t n, float* y) {
  QKV_DISPATCH(GateGradientFloat)(activation, gate, value, dy, dgate, dvalue, n, y);
}
template <>
void GateGradient(Activation activation, const double* gate, const double* value, const double* dy, double* dgate,
                  double* dvalue, int64_t n, double* y) {
  for (int64_t i = 0; i < n; ++i) {
    const double at = gate[i], v = value[i], gradient = dy[i], activated = reference::Activate(activation, at);
    dgate[i] = gradient * v * reference::ActivationSlope(activation, at);
    dvalue[i] = gradient * activated;
    if (y) y[i] = activated * v;
  }
}

template <>
void DropEntries(uint64_t row, int32_t below, float scale, float* x, int64_t n) {
  QKV_DISPATCH(DropEntriesFloat)(row, below, scale, x, n);
}
template <>
void DropEntries(uint64_t row, int32_t below, double scale, double* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const auto bits = static_cast<int32_t>(DropoutHash::Of(row, static_cast<uint32_t>(i)));
    x[i] = bits < below ? 0 : x[i] * scale;
  }
}

}  // namespace qkv::simd
#endif  // HWY_ONCE
