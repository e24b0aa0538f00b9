// Loops over an array by vectors. The remainder runs through the same code, so a value does not depend on its position.

#if defined(QKV_SIMD_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_SIMD_VECTORS_INL_H_
#undef QKV_SIMD_VECTORS_INL_H_
#else
#define QKV_SIMD_VECTORS_INL_H_
#endif

#include "qkv/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {

// The vector from element `index` on.
template <typename T>
struct WholeVector {
  int64_t index;

  HWY_INLINE hn::Vec<hn::ScalableTag<T>> Load(const T* p) const { return hn::LoadU(hn::ScalableTag<T>(), p + index); }
  HWY_INLINE void Store(hn::Vec<hn::ScalableTag<T>> v, T* p) const { hn::StoreU(v, hn::ScalableTag<T>(), p + index); }
};

// The first `count` lanes of it; the others are loaded as 0.
template <typename T>
struct PartOfVector {
  int64_t index, count;

  HWY_INLINE hn::Vec<hn::ScalableTag<T>> Load(const T* p) const {
    return LoadSome(hn::ScalableTag<T>(), p + index, static_cast<size_t>(count));
  }
  HWY_INLINE void Store(hn::Vec<hn::ScalableTag<T>> v, T* p) const {
    StoreSome(hn::ScalableTag<T>(), v, p + index, static_cast<size_t>(count));
  }
};

// f(place) for each vector of elements [begin, end); place.Load(p) and place.Store(v, p) access its elements.
template <typename T, class F>
HWY_INLINE void ForVectors(int64_t begin, int64_t end, F f) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  for (; begin + lanes <= end; begin += lanes) f(WholeVector<T>{begin});
  if (begin < end) f(PartOfVector<T>{begin, end - begin});
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#endif  // QKV_SIMD_VECTORS_INL_H_
