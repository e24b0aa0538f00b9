// Rounding of vectors of float to bfloat16.

#if defined(QKV_SIMD_GEMM_BF16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_SIMD_GEMM_BF16_INL_H_
#undef QKV_SIMD_GEMM_BF16_INL_H_
#else
#define QKV_SIMD_GEMM_BF16_INL_H_
#endif

#include <cstdint>

#include "qkv/simd/gemm/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {

// The nearest bfloat16, ties to even, in the upper half of each lane; NaN stays NaN. The lower half is undefined.
HWY_INLINE Vector<uint32_t> RoundToUpperHalf(Vector<float> x) {
  const Tag<uint32_t> d;
  const auto bits = hn::BitCast(d, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7FFF)));
  const auto is_number = hn::RebindMask(d, hn::Eq(x, x));
  return hn::IfThenElse(is_number, rounded, hn::Or(bits, hn::Set(d, 0x400000)));
}

HWY_INLINE void StoreBf16(Vector<float> x, uint16_t* to) {
  const hn::RebindToSigned<Tag<float>> di;
  const hn::Rebind<uint16_t, Tag<float>> d16;
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, hn::ShiftRight<16>(RoundToUpperHalf(x)))), d16, to);
}

// Of two vectors: [lane][2] of bfloat16.
HWY_INLINE Vector<float> Pairs(Vector<float> even, Vector<float> odd) {
  const Tag<uint32_t> d;
  const auto upper = hn::And(RoundToUpperHalf(odd), hn::Set(d, 0xFFFF0000u));
  return hn::BitCast(Tag<float>(), hn::Or(hn::ShiftRight<16>(RoundToUpperHalf(even)), upper));
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#endif  // QKV_SIMD_GEMM_BF16_INL_H_
