// Packs b into panels and runs the driver of gemm.cc, or of gemm_low.cc in bfloat16. If K was split, the epilogue adds
// the sections' sums in order.
#include "qkv/simd/gemm/matmul.h"

#include <algorithm>

#include "qkv/core/error.h"
#include "qkv/core/parallel.h"
#include "qkv/simd/gemm/gemm_low.h"
#include "qkv/simd/gemm/gemm_task.h"
#include "qkv/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/simd/gemm/matmul.cc"
#include "hwy/foreach_target.h"
//
#ifndef QKV_SIMD_MATMUL_BF16_
#define QKV_SIMD_MATMUL_BF16_
namespace qkv::simd::internal {

// Depth of panels in bfloat16: kernels take 32 at a time.
constexpr int64_t PaddedForBf16(int64_t depth) { return (depth + 31) / 32 * 32; }

}  // namespace qkv::simd::internal
#endif
#include "qkv/simd/dispatch.h"
#include "qkv/simd/gemm/bf16-inl.h"
#include "qkv/simd/gemm/epilogue-inl.h"
#include "qkv/simd/gemm/tile-inl.h"
#include "qkv/simd/gemm/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {
namespace {

using internal::PanelPiece;
using internal::SectionSums;

template <typename T>
inline constexpr int64_t kPanel = 2 * kLanes<T>;

// Padding columns hold finite values or elements of b; the epilogue never stores them.

// Packs one panel of a piece with dense columns by transposition: [depth][panel]. Prefetches the next panel's columns.
template <typename T>
HWY_INLINE void PackColumns(const PanelPiece<T>& piece, int64_t first, T* out, int64_t stride) {
  constexpr int64_t L = kLanes<T>, kLine = static_cast<int64_t>(kAlignment / sizeof(T));
  const T* column[L];
  for (int64_t i = 0; i < L; ++i) {
    column[i] = piece.b + std::min(first + i, piece.columns - 1) * piece.n_stride;
    if (first + i + kPanel<T> >= piece.columns) continue;
    for (int64_t k = 0; k < piece.depth; k += kLine) __builtin_prefetch(column[i] + kPanel<T> * piece.n_stride + k);
  }
  TransposeIn(column, piece.depth, T{1}, out, stride);
}

// Prefetch distance in rows of b: as many as make 4 KiB.
template <typename T>
HWY_INLINE int64_t RowsAhead(const PanelPiece<T>& piece) {
  return std::max<int64_t>(1, 4096 / (piece.columns * static_cast<int64_t>(sizeof(T))));
}
template <typename T>
HWY_INLINE void PrefetchRow(const PanelPiece<T>& piece, int64_t k) {
  if (k >= piece.depth) return;
  const T* row = piece.b + k * piece.k_stride;
  for (int64_t n = 0; n < piece.columns; n += static_cast<int64_t>(kAlignment / sizeof(T))) __builtin_prefetch(row + n);
}

// Packs a panel: [depth][panel].
template <typename T>
HWY_INLINE void Pack(const PanelPiece<T>& piece, T* out) {
  if (piece.n_stride != 1) {
    for (int64_t n = 0; n < piece.columns; n += kPanel<T>, out += piece.distance) {
      PackColumns(piece, n, out, kPanel<T>);
      PackColumns(piece, n + kLanes<T>, out + kLanes<T>, kPanel<T>);
    }
    return;
  }
  const Tag<T> d;
  const int64_t ahead = RowsAhead(piece);
  for (int64_t k = 0; k < piece.depth; ++k) {
    PrefetchRow(piece, k + ahead);
    const T* row = piece.b + k * piece.k_stride;
    T* to = out + k * kPanel<T>;
    int64_t n = 0;
    for (; n + kPanel<T> <= piece.columns; n += kPanel<T>, to += piece.distance) {
      hn::StoreU(hn::LoadU(d, row + n), d, to);
      hn::StoreU(hn::LoadU(d, row + n + kLanes<T>), d, to + kLanes<T>);
    }
    if (n < piece.columns) std::fill(std::copy(row + n, row + piece.columns, to), to + kPanel<T>, T{0});
  }
}

// Packs a panel rounded to bfloat16: [depth / 2][panel][2], zero-padded to a depth of whole chunks of a kernel.
HWY_INLINE void PackBf16(const PanelPiece<float>& piece, float* out) {
  constexpr int64_t L = kLanes<float>, P = kPanel<float>;
  const Tag<float> d;
  const int64_t padded = internal::PaddedForBf16(piece.depth);
  const auto zero = hn::Zero(d);
  if (piece.n_stride != 1) {
    HWY_ALIGN float steps[kRowChunk * L];
    std::fill(steps + piece.depth * L, steps + padded * L, 0.0f);
    for (int64_t n = 0; n < piece.columns; n += P, out += piece.distance) {
      for (int64_t i = 0; i < P; i += L) {
        PackColumns(piece, n + i, steps, L);
        for (int64_t k = 0; k < padded; k += 2) {
          hn::StoreU(Pairs(hn::Load(d, steps + k * L), hn::Load(d, steps + (k + 1) * L)), d, out + k / 2 * P + i);
        }
      }
    }
    return;
  }
  const int64_t ahead = RowsAhead(piece);
  for (int64_t k = 0; k < padded; k += 2) {
    PrefetchRow(piece, k + ahead);
    PrefetchRow(piece, k + ahead + 1);
    const float *even = piece.b + k * piece.k_stride, *odd = even + piece.k_stride;
    const auto load = [&](const float* row, int64_t step, int64_t n) HWY_ATTR {
      if (step >= piece.depth || n >= piece.columns) return zero;
      if (n + L <= piece.columns) return hn::LoadU(d, row + n);
      return LoadSome(d, row + n, static_cast<size_t>(piece.columns - n));
    };
    float* to = out + k / 2 * P;
    for (int64_t n = 0; n < piece.columns; n += P, to += piece.distance) {
      for (int64_t i = 0; i < P; i += L) {
        hn::StoreU(Pairs(load(even, k, n + i), load(odd, k + 1, n + i)), d, to + i);
      }
    }
  }
}

// Source of the product's elements in Finish.
template <typename T>
struct Sections {
  SectionSums<T> sums;

  HWY_INLINE Vector<T> operator()(int64_t r, int64_t i) const {
    const Tag<T> d;
    const T* c = sums.c + r * sums.row_stride + i;
    auto sum = hn::LoadU(d, c);
    for (int64_t s = 1; s < sums.count; ++s) sum = hn::Add(sum, hn::LoadU(d, c + s * sums.section));
    return sum;
  }
};

template <typename T>
HWY_INLINE void FinishSections(const internal::GemmTask<T>& task, SectionSums<T> sums, int64_t row, int64_t rows) {
  sums.c += row * sums.row_stride;
  for (int64_t p = 0; p * kPanel<T> < task.N; ++p, sums.c += kPanel<T>) {
    FinishPanel(task, Sections<T>{sums}, kPanel<T>, row, rows, p);
  }
}

}  // namespace

void PackFloat(const PanelPiece<float>& piece, float* out) { Pack(piece, out); }
void PackDouble(const PanelPiece<double>& piece, double* out) { Pack(piece, out); }
void PackFloatToBf16(const PanelPiece<float>& piece, float* out) { PackBf16(piece, out); }
void FinishFloat(const internal::GemmTask<float>& task, const SectionSums<float>& sums, int64_t row, int64_t rows) {
  FinishSections(task, sums, row, rows);
}
void FinishDouble(const internal::GemmTask<double>& task, const SectionSums<double>& sums, int64_t row, int64_t rows) {
  FinishSections(task, sums, row, rows);
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::simd {

HWY_EXPORT(PackFloat);
HWY_EXPORT(PackDouble);
HWY_EXPORT(PackFloatToBf16);
HWY_EXPORT(FinishFloat);
HWY_EXPORT(FinishDouble);

namespace {

using internal::CeilDivide;
using internal::GemmTask;
using internal::kGemmChain;
using internal::PanelPiece;
using internal::SectionSums;
using internal::TaskCut;

// K is split only as far as needed for this many tasks: otherwise a gradient of few weights over many rows would occupy
// only one or two threads. Sections are deep enough that writing and reading their sums costs little.
constexpr int64_t kWantedTasks = 16, kLeastDepth = 1536;

// Depth of a section: whole chunks, or all of K.
int64_t SectionDepth(int64_t M, int64_t K, int64_t panels) {
  const int64_t tasks = TaskCut(M, panels, 1).count();
  const int64_t sections = std::min(CeilDivide(kWantedTasks, tasks), K / kLeastDepth);
  return sections <= 1 ? K : CeilDivide(K, sections * kRowChunk) * kRowChunk;
}

// Greatest number of panels packed by one task.
constexpr int64_t kPackPanels = 8;

// Owned by the caller, so that a steady state allocates nothing: panels of b, and sums of sections.
template <typename T>
T* Panels(int64_t size) {
  static thread_local Tensor<T> panels;
  internal::Grow(panels, size);
  return panels.data();
}
template <typename T>
T* Sums(int64_t size) {
  static thread_local Tensor<T> sums;
  internal::Grow(sums, size);
  return sums.data();
}

// [sections][panels][depth of the section][panel] of T, or of bfloat16 in pairs of steps, which take the space of one
// step in float.
template <typename T>
void PackSections(View<const T> b, int64_t section_depth, int64_t width, bool bf16, T* out) {
  const int64_t K = b.dim(0), N = b.dim(1), panels = CeilDivide(N, width);
  const bool rows_dense = b.stride(1) == 1 || N <= 1;
  const auto steps = [&](int64_t k) { return bf16 ? internal::PaddedForBf16(k) / 2 : k; };
  const int64_t groups = CeilDivide(panels, kPackPanels), chunks = CeilDivide(K, kRowChunk);
  ParallelTasks(groups * chunks, [&](int64_t t, int) {
    const int64_t begin = t / groups * kRowChunk, end = std::min(K, begin + kRowChunk);
    const int64_t p = t % groups * panels / groups, p_end = (t % groups + 1) * panels / groups;
    const int64_t section = begin / section_depth * section_depth;
    const int64_t distance = steps(std::min(section_depth, K - section)) * width;
    const PanelPiece<T> piece{b.at(begin, p * width),
                              rows_dense ? b.stride(0) : 1,
                              rows_dense ? 1 : b.stride(1),
                              end - begin,
                              std::min(p_end * width, N) - p * width,
                              distance};
    T* const to = out + steps(section) * panels * width + p * distance + steps(begin - section) * width;
    if constexpr (sizeof(T) == 8) {
      QKV_DISPATCH(PackDouble)(piece, to);
    } else if (bf16) {
      QKV_DISPATCH(PackFloatToBf16)(piece, to);
    } else {
      QKV_DISPATCH(PackFloat)(piece, to);
    }
  });
}

// The kernel that multiplies in this precision, or null: the product is then computed in T.
template <typename T>
const internal::TileKernel* KernelFor(Precision precision, int64_t K) {
  if (precision == Precision::kFloat32 || K == 0) return nullptr;
  Require(precision == Precision::kBfloat16, "matmul: expected float32 or bfloat16");
  if constexpr (sizeof(T) == 4) {
    const internal::TileKernel& kernel = internal::SelectTileKernel(precision);
    if (Describe(precision).native && kernel.panel == internal::GemmPanel<float>()) return &kernel;
  }
  return nullptr;
}

}  // namespace

template <typename T>
void MatMul(View<const T> a, View<const T> b, const Epilogue<T>& epilogue, View<T> c, Precision precision) {
  Require(a.rank() == 2 && b.rank() == 2 && a.dim(1) == b.dim(0),
          "matmul: expected a [M, K] and b [K, N], got {} and {}", a.shape(), b.shape());
  const int64_t M = a.dim(0), K = a.dim(1), N = b.dim(1);
  Require(c.rank() == 2 && c.dim(0) == M && c.dim(1) == N, "matmul: expected c [{}, {}], got {}", M, N, c.shape());
  const bool a_rows = a.stride(1) == 1 || K <= 1, b_rows = b.stride(1) == 1 || N <= 1;
  Require((a_rows || a.stride(0) == 1 || M <= 1) && (b_rows || b.stride(0) == 1 || K <= 1),
          "matmul: expected a dense axis of a and of b");
  Require(c.stride(1) == 1 || N <= 1, "matmul: expected dense rows of c");
  const internal::TileKernel* const bf16 = KernelFor<T>(precision, K);
  if (M == 0 || N == 0) return;

  const int64_t width = internal::GemmPanel<T>(), panels = CeilDivide(N, width), padded_N = panels * width;
  const int64_t depth = SectionDepth(M, K, panels), sections = K == 0 ? 1 : CeilDivide(K, depth);
  // Blocks as even as possible, of whole chains: if K is not split, the result equals Gemm's.
  const int64_t blocks = std::max<int64_t>(1, CeilDivide(depth, internal::GemmBlockDepth()));
  const int64_t block_depth = std::max<int64_t>(1, CeilDivide(depth, blocks * kGemmChain)) * kGemmChain;
  T* const packed = Panels<T>(bf16 ? internal::PaddedForBf16(K) / 2 * padded_N : K * padded_N);
  PackSections(b, depth, width, bf16 != nullptr, packed);
  const auto product = [&](const GemmTask<T>& task, const internal::DepthCut& cut) {
    if constexpr (sizeof(T) == 4) {
      if (bf16) {
        return internal::RunLowProduct(
            task, M, {bf16, reinterpret_cast<const uint8_t*>(packed), nullptr, panels, internal::PaddedForBf16(K)},
            {cut.count, internal::PaddedForBf16(cut.depth), cut.y_distance});
      }
    }
    internal::RunProduct(task, M, panels, cut);
  };

  const Prologue<T> no_prologue;
  GemmTask<T> whole{a.data(),
                    a.stride(0),
                    a_rows ? 1 : a.stride(1),
                    packed,
                    c.data(),
                    c.stride(0),
                    N,
                    0,
                    N,
                    K,
                    block_depth,
                    Gate::kNone,
                    &no_prologue,
                    &epilogue};
  whole.y_is_far = true;
  if (sections == 1) return product(whole, {1, K, 0});

  T* const sums = Sums<T>(sections * M * padded_N);
  const Epilogue<T> no_epilogue;
  GemmTask<T> parts = whole;
  parts.y = sums, parts.y_stride = parts.head_width = parts.N = padded_N, parts.epilogue = &no_epilogue;
  product(parts, {sections, depth, M * padded_N});
  constexpr int64_t kRows = 16;  // per task
  ParallelFor(M, kRows, [&](int64_t begin, int64_t end) {
    const SectionSums<T> all{sums, padded_N, M * padded_N, sections};
    if constexpr (sizeof(T) == 4) {
      QKV_DISPATCH(FinishFloat)(whole, all, begin, end - begin);
    } else {
      QKV_DISPATCH(FinishDouble)(whole, all, begin, end - begin);
    }
  });
}

template void MatMul(View<const float>, View<const float>, const Epilogue<float>&, View<float>, Precision);
template void MatMul(View<const double>, View<const double>, const Epilogue<double>&, View<double>, Precision);

}  // namespace qkv::simd
#endif  // HWY_ONCE
