#include "qkv/simd/rows/rotary.h"

#include "qkv/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/simd/rows/rotary.cc"
#include "hwy/foreach_target.h"
//
#include "qkv/simd/dispatch.h"
#include "qkv/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {
namespace {

template <typename T>
HWY_INLINE void RotateRow(const T* x, const T* table, int64_t heads, int64_t E, bool back, T* y) {
#if HWY_TARGET == HWY_SCALAR  // its vectors hold no pairs
  for (int64_t e = 0; e < E; e += 2) {
    const T c = table[e], s = back ? -table[E + e + 1] : table[E + e + 1];
    for (int64_t i = e; i < heads * E; i += E) {
      const T first = x[i], second = x[i + 1];
      y[i] = c * first - s * second, y[i + 1] = c * second + s * first;
    }
  }
#else
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto turned = [d](auto v, auto c, auto s) HWY_ATTR { return hn::MulAdd(s, hn::Reverse2(d, v), hn::Mul(c, v)); };
  int64_t e = 0;
  for (; e + lanes <= E; e += lanes) {
    const auto c = hn::LoadU(d, table + e), sine = hn::LoadU(d, table + E + e), s = back ? hn::Neg(sine) : sine;
    for (int64_t i = e; i < heads * E; i += E) hn::StoreU(turned(hn::LoadU(d, x + i), c, s), d, y + i);
  }
  if (const int64_t rest = E - e; rest > 0) {
    const auto c = LoadSome(d, table + e, rest), sine = LoadSome(d, table + E + e, rest);
    const auto s = back ? hn::Neg(sine) : sine;
    for (int64_t i = e; i < heads * E; i += E) StoreSome(d, turned(LoadSome(d, x + i, rest), c, s), y + i, rest);
  }
#endif
}

template <typename T>
HWY_INLINE void RotateRows(const PairRotation<T>& task, bool back) {
  for (int64_t row = 0; row < task.rows; ++row) {
    RotateRow(task.x + row * task.x_stride, task.table + row * 2 * task.E, task.heads, task.E, back,
              task.y + row * task.y_stride);
  }
}

}  // namespace

void RotatePairsFloat(const PairRotation<float>& task, bool back) { RotateRows(task, back); }
void RotatePairsDouble(const PairRotation<double>& task, bool back) { RotateRows(task, back); }

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::simd {

HWY_EXPORT(RotatePairsFloat);
HWY_EXPORT(RotatePairsDouble);

template <>
void RotatePairs(const PairRotation<float>& task, bool back) {
  QKV_DISPATCH(RotatePairsFloat)(task, back);
}
template <>
void RotatePairs(const PairRotation<double>& task, bool back) {
  QKV_DISPATCH(RotatePairsDouble)(task, back);
}

}  // namespace qkv::simd
#endif  // HWY_ONCE
