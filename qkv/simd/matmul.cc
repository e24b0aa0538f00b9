// Packs b into panels, then runs the driver of gemm.cc; where K was split, adds the sections' sums up, in order, on the
// way through the epilogue.
#include "qkv/simd/matmul.h"

#include <algorithm>

#include "qkv/core/error.h"
#include "qkv/core/parallel.h"
#include "qkv/simd/gemm_task.h"
#include "qkv/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/simd/matmul.cc"
#include "hwy/foreach_target.h"
//
#include "qkv/simd/dispatch.h"
#include "qkv/simd/gemm_finish-inl.h"
#include "qkv/simd/tile-inl.h"
#include "qkv/simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {
namespace {

using internal::PanelPiece;
using internal::SectionSums;

// out: [depth][panel]. Columns past the last hold anything finite or of b: nothing of them is stored in the end.
template <typename T>
HWY_INLINE void Pack(const PanelPiece<T>& piece, T* out) {
  constexpr int64_t kPanel = 2 * kLanes<T>;
  if (piece.n_stride != 1) {
    const T* column[kPanel];
    for (int64_t n = 0; n < kPanel; ++n) column[n] = piece.b + (n < piece.columns ? n * piece.n_stride : 0);
    TransposeIn(column, piece.depth, T{1}, out, kPanel);
    TransposeIn(column + kLanes<T>, piece.depth, T{1}, out + kLanes<T>, kPanel);
    return;
  }
  const Tag<T> d;
  const T* b = piece.b;
  for (int64_t k = 0; k < piece.depth; ++k, b += piece.k_stride, out += kPanel) {
    if (piece.columns == kPanel) {
      hn::StoreU(hn::LoadU(d, b), d, out);
      hn::StoreU(hn::LoadU(d, b + kLanes<T>), d, out + kLanes<T>);
    } else {
      std::fill(std::copy_n(b, piece.columns, out), out + kPanel, T{0});
    }
  }
}

// The product that Finish takes elements from.
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
  constexpr int64_t kPanel = 2 * kLanes<T>;
  sums.c += row * sums.row_stride;
  for (int64_t p = 0; p * kPanel < task.N; ++p, sums.c += kPanel) {
    FinishPanel(task, Sections<T>{sums}, kPanel, row, rows, p);
  }
}

}  // namespace

void PackFloat(const PanelPiece<float>& piece, float* out) { Pack(piece, out); }
void PackDouble(const PanelPiece<double>& piece, double* out) { Pack(piece, out); }
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
HWY_EXPORT(FinishFloat);
HWY_EXPORT(FinishDouble);

namespace {

using internal::GemmTask;
using internal::kGemmChain;
using internal::kGemmChunk;
using internal::PanelPiece;
using internal::SectionSums;
using internal::TaskCut;

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// K is split only as far as it takes for this many tasks: a gradient of few weights from many rows would else be the
// work of one or two threads. A section is deep enough for its sums' way through memory not to matter.
constexpr int64_t kWantedTasks = 16, kLeastDepth = 1536;

// Depth of a section: whole chunks, or all of K.
int64_t SectionDepth(int64_t M, int64_t K, int64_t panels) {
  const int64_t tasks = TaskCut(M, panels, 1).count();
  const int64_t sections = std::min(CeilDivide(kWantedTasks, tasks), K / kLeastDepth);
  return sections <= 1 ? K : CeilDivide(K, sections * kGemmChunk) * kGemmChunk;
}

// The caller's, so that a steady state allocates nothing: panels of b, and sums of sections.
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

// [sections][panels][depth of the section][panel]
template <typename T>
void PackSections(View<const T> b, int64_t section_depth, int64_t width, T* out) {
  const int64_t K = b.dim(0), N = b.dim(1), panels = CeilDivide(N, width);
  const bool rows_dense = b.stride(1) == 1 || N <= 1;
  ParallelFor(K, kGemmChunk, [&](int64_t begin, int64_t end) {
    const int64_t section = begin / section_depth * section_depth;
    const int64_t depth = std::min(section_depth, K - section);
    for (int64_t p = 0; p < panels; ++p) {
      const PanelPiece<T> piece{b.at(begin, p * width), rows_dense ? b.stride(0) : 1, rows_dense ? 1 : b.stride(1),
                                end - begin, std::min(width, N - p * width)};
      T* const to = out + (section * panels + p * depth + begin - section) * width;
      if constexpr (sizeof(T) == 4) {
        QKV_DISPATCH(PackFloat)(piece, to);
      } else {
        QKV_DISPATCH(PackDouble)(piece, to);
      }
    }
  });
}

}  // namespace

template <typename T>
void MatMul(View<const T> a, View<const T> b, const Epilogue<T>& epilogue, View<T> c) {
  Require(a.rank() == 2 && b.rank() == 2 && a.dim(1) == b.dim(0),
          "matmul: expected a [M, K] and b [K, N], got {} and {}", ToString(a.shape()), ToString(b.shape()));
  const int64_t M = a.dim(0), K = a.dim(1), N = b.dim(1);
  Require(c.rank() == 2 && c.dim(0) == M && c.dim(1) == N, "matmul: expected c [{}, {}], got {}", M, N,
          ToString(c.shape()));
  const bool a_rows = a.stride(1) == 1 || K <= 1, b_rows = b.stride(1) == 1 || N <= 1;
  Require((a_rows || a.stride(0) == 1 || M <= 1) && (b_rows || b.stride(0) == 1 || K <= 1),
          "matmul: expected a dense axis of a and of b");
  Require(c.stride(1) == 1 || N <= 1, "matmul: expected dense rows of c");
  if (M == 0 || N == 0) return;

  const int64_t width = internal::GemmPanel<T>(), panels = CeilDivide(N, width), padded_N = panels * width;
  const int64_t depth = SectionDepth(M, K, panels), sections = K == 0 ? 1 : CeilDivide(K, depth);
  // Blocks as even as can be, of whole chains: where K is not split, the result is Gemm's.
  const int64_t blocks = std::max<int64_t>(1, CeilDivide(depth, internal::GemmBlockDepth()));
  const int64_t block_depth = std::max<int64_t>(1, CeilDivide(depth, blocks * kGemmChain)) * kGemmChain;
  T* const packed = Panels<T>(K * padded_N);
  PackSections(b, depth, width, packed);

  const Prologue<T> no_prologue;
  const GemmTask<T> whole{a.data(),
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
  if (sections == 1) return internal::RunProduct(whole, M, panels, {1, K, 0});

  T* const sums = Sums<T>(sections * M * padded_N);
  const Epilogue<T> no_epilogue;
  GemmTask<T> parts = whole;
  parts.y = sums, parts.y_stride = parts.head_width = parts.N = padded_N, parts.epilogue = &no_epilogue;
  internal::RunProduct(parts, M, panels, {sections, depth, M * padded_N});
  constexpr int64_t kRows = 16;  // of a task
  ParallelFor(M, kRows, [&](int64_t begin, int64_t end) {
    const SectionSums<T> all{sums, padded_N, M * padded_N, sections};
    if constexpr (sizeof(T) == 4) {
      QKV_DISPATCH(FinishFloat)(whole, all, begin, end - begin);
    } else {
      QKV_DISPATCH(FinishDouble)(whole, all, begin, end - begin);
    }
  });
}

template void MatMul(View<const float>, View<const float>, const Epilogue<float>&, View<float>);
template void MatMul(View<const double>, View<const double>, const Epilogue<double>&, View<double>);

}  // namespace qkv::simd
#endif  // HWY_ONCE
