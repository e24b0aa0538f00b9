// The epilogue of a matrix product on rows of one panel, in registers: for gemm.cc, and for low precision, where
// loading also converts sums to float.

#if defined(QKV_SIMD_GEMM_FINISH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_SIMD_GEMM_FINISH_INL_H_
#undef QKV_SIMD_GEMM_FINISH_INL_H_
#else
#define QKV_SIMD_GEMM_FINISH_INL_H_
#endif

#include <algorithm>

#include "qkv/simd/gemm/gemm_task.h"
#include "qkv/simd/gemm/tile-inl.h"
#include "qkv/simd/rows/activation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {
namespace {

using internal::GemmTask;

// The product's elements of a panel: operator()(r, i) returns the vector of row r from column i on.
template <typename T>
struct Sums {
  const T* c;  // [rows][panel]
  int64_t panel;

  HWY_INLINE Vector<T> operator()(int64_t r, int64_t i) const { return hn::LoadU(Tag<T>(), c + r * panel + i); }
};

// Address of column n in a row of y.
template <typename T>
HWY_INLINE int64_t ColumnOffset(const GemmTask<T>& task, int64_t n) {
  return n < task.head_width ? n : n / task.head_width * task.head_stride + n % task.head_width;
}

// Addresses of a panel's epilogue. It is the complete epilogue if that has sums only: y = product + bias + residual,
// whole vectors of one head.
template <typename T>
struct DirectEpilogue {
  const T* bias;      // of the panel's columns, or null
  const T* residual;  // of the first row, or null
  int64_t residual_stride;
  T* y;
  int64_t y_stride;

  // The same for rows starting this many below.
  HWY_INLINE DirectEpilogue RowsBelow(int64_t rows) const {
    return {bias, residual ? residual + rows * residual_stride : nullptr, residual_stride, y + rows * y_stride,
            y_stride};
  }

  // Prefetches the memory of the epilogue: with few steps of K it is as large as the operands.
  HWY_INLINE void PrefetchLines(int64_t rows, int64_t panel_width) const {
    constexpr int64_t kLine = static_cast<int64_t>(kAlignment / sizeof(T));
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < panel_width; i += kLine) {
        __builtin_prefetch(y + r * y_stride + i, 1);
        if (residual && residual != y) __builtin_prefetch(residual + r * residual_stride + i);
      }
    }
  }
};

template <typename T>
HWY_INLINE bool LiesInOneHead(const GemmTask<T>& task, int64_t panel_width, int64_t panel) {
  const int64_t n = panel * panel_width;
  return n % task.head_width + std::min(panel_width, task.N - n) <= task.head_width;
}

// Whether DirectEpilogue describes the epilogue of a panel.
template <typename T>
HWY_INLINE bool HasDirectEpilogue(const GemmTask<T>& task, int64_t panel_width, int64_t panel) {
  const Epilogue<T>& e = *task.epilogue;
  return task.gate == Gate::kNone && e.activation == Activation::kNone && !e.scale &&
         (panel + 1) * panel_width <= task.N && LiesInOneHead(task, panel_width, panel);
}
template <typename T>
HWY_INLINE DirectEpilogue<T> MakeDirectEpilogue(const GemmTask<T>& task, int64_t panel_width, int64_t row,
                                                int64_t panel) {
  const Epilogue<T>& e = *task.epilogue;
  const int64_t n = panel * panel_width;
  return {e.bias ? e.bias + n : nullptr, e.residual ? e.residual + row * e.residual_stride + n : nullptr,
          e.residual_stride, task.y + row * task.y_stride + ColumnOffset(task, n), task.y_stride};
}
template <typename T, class Product>
HWY_NOINLINE void StoreDirectEpilogue(const DirectEpilogue<T>& end, const Product& product, int64_t panel_width,
                                      int64_t rows) {
  const Tag<T> d;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < panel_width; i += kLanes<T>) {
      auto v = product(r, i);
      if (end.bias) v = hn::Add(v, hn::LoadU(d, end.bias + i));
      if (end.residual) v = hn::Add(v, hn::LoadU(d, end.residual + r * end.residual_stride + i));
      hn::StoreU(v, d, end.y + r * end.y_stride + i);
    }
  }
}

// Stores `count` lanes from column n on.
template <typename T>
HWY_INLINE void StoreColumns(const GemmTask<T>& task, Vector<T> v, int64_t n, int64_t count, T* y) {
  const Tag<T> d;
  if (n % task.head_width + count <= task.head_width) return StoreSome(d, v, y + ColumnOffset(task, n), count);
  HWY_ALIGN T lanes[kLanes<T>];
  hn::Store(v, d, lanes);
  for (int64_t i = 0; i < count; ++i) y[ColumnOffset(task, n + i)] = lanes[i];
}

// y = residual + scale · activation(c + bias) for rows × columns of one panel.
template <Activation kActivation, typename T, class Product>
HWY_NOINLINE void Finish(const GemmTask<T>& task, const Product& product, int64_t panel_width, int64_t row,
                         int64_t rows, int64_t panel) {
  const Tag<T> d;
  const Epilogue<T>& e = *task.epilogue;
  const bool gated = task.gate != Gate::kNone;
  const int64_t half = panel_width / 2, width = gated ? half : panel_width;
  const int64_t gate_at = task.gate == Gate::kLast ? task.N : 0, value_at = gated ? task.N - gate_at : 0;
  for (int64_t i = 0; i < width; i += kLanes<T>) {
    const int64_t n = panel * width + i, count = std::min<int64_t>(kLanes<T>, task.N - n);
    if (count <= 0) return;
    const bool whole = count == kLanes<T>;
    const auto load = [&](const T* p) HWY_ATTR { return whole ? hn::LoadU(d, p + n) : LoadSome(d, p + n, count); };
    const auto zero = hn::Zero(d);
    const auto bias = e.bias ? load(e.bias + gate_at) : zero, value_bias = e.bias ? load(e.bias + value_at) : zero;
    const auto scale = e.scale ? load(e.scale) : zero;
    const bool in_one_head = whole && n % task.head_width + kLanes<T> <= task.head_width;
    T* y = task.y + row * task.y_stride + (in_one_head ? ColumnOffset(task, n) : 0);
    const T* residual = e.residual ? e.residual + row * e.residual_stride : nullptr;
    for (int64_t r = 0; r < rows; ++r, y += task.y_stride) {
      auto v = ActivateVector<kActivation>(d, hn::Add(product(r, i), bias));
      if (gated) v = hn::Mul(v, hn::Add(product(r, half + i), value_bias));
      if (e.scale) v = hn::Mul(v, scale);
      if (residual) v = hn::Add(v, load(residual + r * e.residual_stride));
      if (in_one_head) {
        hn::StoreU(v, d, y);
      } else {
        StoreColumns(task, v, n, count, y);
      }
    }
  }
}

template <typename T, class Product>
HWY_INLINE void FinishPanel(const GemmTask<T>& task, const Product& product, int64_t panel_width, int64_t row,
                            int64_t rows, int64_t panel) {
  if (HasDirectEpilogue(task, panel_width, panel)) {
    return StoreDirectEpilogue(MakeDirectEpilogue(task, panel_width, row, panel), product, panel_width, rows);
  }
  switch (task.epilogue->activation) {
    case Activation::kNone:
      return Finish<Activation::kNone>(task, product, panel_width, row, rows, panel);
    case Activation::kGelu:
      return Finish<Activation::kGelu>(task, product, panel_width, row, rows, panel);
    case Activation::kGeluTanh:
      return Finish<Activation::kGeluTanh>(task, product, panel_width, row, rows, panel);
    case Activation::kQuickGelu:
      return Finish<Activation::kQuickGelu>(task, product, panel_width, row, rows, panel);
    case Activation::kRelu:
      return Finish<Activation::kRelu>(task, product, panel_width, row, rows, panel);
    case Activation::kSilu:
      return Finish<Activation::kSilu>(task, product, panel_width, row, rows, panel);
    case Activation::kTanh:
      return Finish<Activation::kTanh>(task, product, panel_width, row, rows, panel);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#endif  // QKV_SIMD_GEMM_FINISH_INL_H_
