// exp, exp2, tanh, logistic and GELU on vectors of float, and exp, exp2 on vectors of double.
//
// Greatest error measured against libm in the next wider type, with FMA / without (tests/simd/exp_test.cc over every
// 197th float, math_test.cc over every 397th):
//   function              range        error
//   Exp                   [-104, 89]   1.00 / 0.96 ULP (subnormal results: of the smallest subnormal)
//   Exp2Flushed           [-126, 1]    0.78 / 1.07 ULP; 0 below -126.5
//   Exp2Flushed (double)  [-1021, 1]   0.56 / 0.75 ULP; 0 below -1022.5
//   Tanh                  all          1.3 ULP
//   x Logistic(x)         [-87, inf)   2.4 ULP
//   Gelu                  all          1.3 / 1.6 · |x| 2^-24
// Polynomials: minimax by Lawson's iteration, coefficients rounded to float one by one from the lowest and the rest
// fitted again, as in tools/fit_normal_tail.py.

#if defined(QKV_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_SIMD_MATH_INL_H_
#undef QKV_SIMD_MATH_INL_H_
#else
#define QKV_SIMD_MATH_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "qkv/simd/normal_tail.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// For |x| < 2^22 (2^51): adding it leaves the nearest integer to x in the low bits.
HWY_INLINE constexpr float RoundingMagic(float) { return 12582912.0f; }
HWY_INLINE constexpr double RoundingMagic(double) { return 6755399441055744.0; }

// Whether Max(a, b) and Min(a, b) return b if one of them is NaN, like x86's own instructions.
inline constexpr bool kSecondOfNaN = HWY_TARGET == HWY_SSSE3 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3;

// max(x, low) and min(x, high); NaN stays NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V AtLeast(D d, V x, hn::TFromD<D> low) {
  const V limit = hn::Set(d, low);
  return kSecondOfNaN ? hn::Max(limit, x) : hn::IfThenElse(hn::Lt(x, limit), limit, x);
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V AtMost(D d, V x, hn::TFromD<D> high) {
  const V limit = hn::Set(d, high);
  return kSecondOfNaN ? hn::Min(limit, x) : hn::IfThenElse(hn::Gt(x, limit), limit, x);
}

// x · 2^n for n in [-252, 254]; rounds once into subnormals.
template <class D, class V = hn::Vec<D>, class VI>
HWY_INLINE V ScaleByPowerOfTwo(D d, V x, VI n) {
  const hn::RebindToSigned<D> di;
  const auto bias = hn::Set(di, 127);
  // In two halves, so that each factor is a normal number.
  const auto half = hn::ShiftRight<1>(n);
  const V first = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const V second = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::Sub(n, half), bias)));
  return hn::Mul(hn::Mul(x, first), second);
}

// Horner's rule, coefficients from the highest.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Horner(D d, V, hn::TFromD<D> c) {
  return hn::Set(d, c);
}
template <class D, class V = hn::Vec<D>, typename... Lower>
HWY_INLINE V Horner(D d, V x, V sum, hn::TFromD<D> c, Lower... lower) {
  sum = hn::MulAdd(sum, x, hn::Set(d, c));
  if constexpr (sizeof...(lower) == 0) {
    return sum;
  } else {
    return Horner(d, x, sum, lower...);
  }
}

// 2^x − 1 for |x| <= 1/2, divided by x.
template <class D, class V = hn::Vec<D>>
requires(sizeof(hn::TFromD<D>) == 4) HWY_INLINE V Exp2Series(D d, V x) {
  const V top = hn::Set(d, 0x1.417a98p-13f);
  return Horner(d, x, top, 0x1.5f0948p-10f, 0x1.3b2dd2p-7f, 0x1.c6af7ap-5f, 0x1.ebfbdcp-3f, 0x1.62e430p-1f);
}
template <class D, class V = hn::Vec<D>>
requires(sizeof(hn::TFromD<D>) == 8) HWY_INLINE V Exp2Series(D d, V x) {
  // ln(2)^k / k!; the omitted terms are below 2^-57.
  const V top = hn::Set(d, 1.3691488853904129e-12);
  return Horner(d, x, top, 2.5678435993488205e-11, 4.445538271870812e-10, 7.054911620801123e-09, 1.0178086009239699e-07,
                1.321548679014431e-06, 1.525273380405984e-05, 1.5403530393381608e-04, 1.3333558146428443e-03,
                9.618129107628477e-03, 5.550410866482158e-02, 2.402265069591007e-01, 6.931471805599453e-01);
}

// 2^x for x <= 0 or slightly above; 0 for x half a step or more below the exponent of the smallest normal number, so
// that almost no time is spent on subnormals. NaN stays NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp2Flushed(D d, V x) {
  using T = hn::TFromD<D>;
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(T) == 4) {
    const V n = hn::Round(x);
    const V r = hn::Sub(x, n);
    // −inf − −inf is NaN, so a mask zeroes the lanes to be flushed instead of clamping them.
    const V p = hn::MulAdd(r, Exp2Series(d, r), hn::Set(d, T{1}));
    const __mmask16 keep = _mm512_cmp_ps_mask(x.raw, _mm512_set1_ps(-126.0f), _CMP_NLT_UQ);
    return V{_mm512_maskz_scalef_ps(keep, p.raw, n.raw)};
  }
#endif
  const hn::RebindToSigned<D> di;
  constexpr int kMantissa = sizeof(T) == 4 ? 23 : 52;
  constexpr T kBias = sizeof(T) == 4 ? T{127} : T{1023};
  // The bias is included, so the low bits of the sum are the biased exponent; the higher bits are shifted out.
  const V magic = hn::Set(d, RoundingMagic(T{}) + kBias);
  const V clamped = AtLeast(d, x, -kBias);  // below, the biased exponent becomes 0 and the factor +0
  const V shifted = hn::Add(clamped, magic);
  const V r = hn::Sub(clamped, hn::Sub(shifted, magic));
  const V p = hn::MulAdd(r, Exp2Series(d, r), hn::Set(d, T{1}));
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<kMantissa>(hn::BitCast(di, shifted))));
}

// e^r − 1 for |r| <= ln(2)/2.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpM1Reduced(D d, V r) {
  const V top = hn::Set(d, 0.0013820743f);
  const V q = Horner(d, r, top, 0.008368676f, 0.041668266f, 0.16666521f, 0.49999994f);
  return hn::MulAdd(hn::Mul(r, r), q, r);
}

// Splits x = n ln 2 + r for finite |x| below 2^20; returns r.
template <class D, class V = hn::Vec<D>, class VI>
HWY_INLINE V ReduceByLn2(D d, V x, V& n, VI& n_int) {
  const hn::RebindToSigned<D> di;
  const V magic = hn::Set(d, 12582912.0f);
  const V shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), magic);
  n = hn::Sub(shifted, magic);
  n_int = hn::Sub(hn::BitCast(di, shifted), hn::BitCast(di, magic));
  // Cody and Waite: 0x1.62e4p-1 has 15 bits, so n times it is exact, with and without FMA.
  V r = hn::NegMulAdd(n, hn::Set(d, 0x1.62e4p-1f), x);
  return hn::NegMulAdd(n, hn::Set(d, 0x1.7f7d1cp-20f), r);
}

// e^x for float. Overflows to infinity, underflows gradually; NaN stays NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp(D d, V x) {
  V n;
  hn::Vec<hn::RebindToSigned<D>> n_int;
  // 105 and 90 are beyond the last finite nonzero results.
  x = AtMost(d, AtLeast(d, x, -105.0f), 90.0f);
  const V r = ReduceByLn2(d, x, n, n_int);
  const V p = hn::Add(ExpM1Reduced(d, r), hn::Set(d, 1.0f));
  return ScaleByPowerOfTwo(d, p, n_int);
}

// Near 0 an odd polynomial; from 0.625 on 1 − 2 / (e^2|x| + 1), which has no cancellation.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Tanh(D d, V x) {
  const V one = hn::Set(d, 1.0f), square = hn::Mul(x, x), magnitude = hn::Abs(x);
  const V series = Horner(d, square, hn::Set(d, -0.005514837f), 0.0204691f, -0.05368792f, 0.13330829f, -0.3333326f);
  const V small = hn::MulAdd(hn::Mul(x, square), series, x);
  const V power = Exp(d, hn::Add(magnitude, magnitude));
  const V large = hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(power, one)));
  return hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0.625f)), small, hn::CopySignToAbs(large, x));
}

// 1 / (1 + e^−x)
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Logistic(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, Exp(d, hn::Neg(x))));
}

using NormalTailPieces = internal::NormalTail<HWY_TARGET == HWY_AVX3 ? 32 : 8>;

// The coefficient of the piece whose index is in the low bits of each lane.
template <class D, class VI, class V = hn::Vec<D>>
HWY_INLINE V LookupCoefficient(D d, const float* of_pieces, VI piece) {
#if HWY_TARGET == HWY_AVX3
  return V{_mm512_permutex2var_ps(_mm512_load_ps(of_pieces), piece.raw, _mm512_load_ps(of_pieces + 16))};
#elif HWY_TARGET == HWY_AVX2
  return V{_mm256_permutevar8x32_ps(_mm256_load_ps(of_pieces), piece.raw)};
#else
  return hn::GatherIndex(d, of_pieces, hn::And(piece, hn::Set(hn::RebindToSigned<D>(), NormalTailPieces::kPieces - 1)));
#endif
}

// Φ(−u) for 0 <= u <= NormalTailPieces::kEnd. The lookups of coefficients use other execution units than
// multiplications.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V NormalTail(D d, V u) {
  constexpr int kTop = NormalTailPieces::kCoefficients - 1;
  const auto& table = NormalTailPieces::kTable;
  const V per_unit = hn::Set(d, NormalTailPieces::kPerUnit), magic = hn::Set(d, RoundingMagic(0.0f));
  const V shifted = hn::MulAdd(u, per_unit, magic);
  const V r = hn::MulSub(u, per_unit, hn::Sub(shifted, magic));
  const auto piece = hn::BitCast(hn::RebindToSigned<D>(), shifted);
  V sum = LookupCoefficient(d, table[kTop], piece);
#pragma GCC unroll 8
  for (int i = kTop - 1; i >= 0; --i) sum = hn::MulAdd(sum, r, LookupCoefficient(d, table[i], piece));
  return sum;
}

// x Φ(x) = max(x, 0) − |x| Φ(−|x|)
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Gelu(D d, V x) {
  const V u = AtMost(d, hn::Abs(x), NormalTailPieces::kEnd);
  return hn::NegMulAdd(u, NormalTail(d, u), AtLeast(d, x, 0.0f));
}

// Vectors with fewer elements than a register: `n` < Lanes(d) elements at p; the other lanes are 0.
template <class D, class V = hn::Vec<D>, typename T = hn::TFromD<D>>
HWY_INLINE V LoadSome(D d, const T* p, size_t n) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  return hn::MaskedLoad(hn::FirstN(d, n), d, p);  // does not access masked-out memory
#else
  HWY_ALIGN T buffer[hn::MaxLanes(d)] = {};
  for (size_t i = 0; i < n; ++i) buffer[i] = p[i];
  return hn::Load(d, buffer);
#endif
}
template <class D, class V = hn::Vec<D>, typename T = hn::TFromD<D>>
HWY_INLINE void StoreSome(D d, V v, T* p, size_t n) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  hn::BlendedStore(v, hn::FirstN(d, n), d, p);
#else
  HWY_ALIGN T buffer[hn::MaxLanes(d)];
  hn::Store(v, d, buffer);
  for (size_t i = 0; i < n; ++i) p[i] = buffer[i];
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#endif  // QKV_SIMD_MATH_INL_H_
