// Division of the work: y is cut into tasks of up to kBlockRows rows by some panels of outputs. A task walks K in
// blocks. For each block, the rows of x, copied once into chunks (or read in place if they are in chunks), stay in L2
// while slices of the panels of W stream past; each slice is prefetched during the previous one, and the first slice of
// the next product during the last one. Partial sums of the blocks are accumulated in scratch memory, and the epilogue
// runs on each panel when its sums are complete. Not here: packing for products of two changing operands (matmul.cc),
// which then run here too.
#include "qkv/simd/gemm/gemm.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/core/parallel.h"
#include "qkv/simd/gemm/gemm_low.h"
#include "qkv/simd/gemm/gemm_task.h"
#include "qkv/simd/gemm/row_kernel.h"
#include "qkv/simd/isa.h"
#include "qkv/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/simd/gemm/gemm.cc"
#include "hwy/foreach_target.h"
//
#include "qkv/simd/dispatch.h"
#include "qkv/simd/gemm/epilogue-inl.h"
#include "qkv/simd/gemm/tile-inl.h"
#include "qkv/simd/rows/row_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {
namespace {

using internal::GemmTask;

template <typename T>
inline constexpr int kPanel = 2 * kLanes<T>;

constexpr int64_t kChain = internal::kGemmChain;

// C[rows][panel] = or += A B for one tile and one block of K; stored in c, or as `end` says. A is in chunks, a_chunk
// apart, or with kBySteps in the layout of CopySteps.
template <bool kBySteps, typename T>
HWY_NOINLINE void MultiplyTile(int rows, const T* a, int64_t a_chunk, const T* b, int64_t depth, Prefetch& prefetch,
                               bool first, T* c, const DirectEpilogue<T>* end) {
  ForRows(rows, [&]<int R>() HWY_ATTR {
    Accumulators<T, R, 2> acc;
    acc.Clear();
    while (true) {
      const int64_t steps = std::min(kChain, depth);
      if constexpr (kBySteps) {
        MultiplySteps<T, R, 2>(acc, a, b, steps, prefetch);
      } else {
        MultiplyChunks<T, R, 2>(acc, a, a_chunk, b, steps, prefetch);
      }
      if (!first) acc.AddFrom(c, kPanel<T>);
      depth -= steps;
      if (depth == 0) break;
      acc.Store(c, kPanel<T>);
      acc.Clear();
      first = false;
      a += kBySteps ? kChain * R : kChain / kChunk * a_chunk;
      b += kChain * kPanel<T>;
    }
    if (end == nullptr) return acc.Store(c, kPanel<T>);
    if (end->bias) acc.AddRow(end->bias);
    if (end->residual) acc.AddFrom(end->residual, end->residual_stride);
    acc.Store(end->y, end->y_stride);
  });
}

// As MultiplyTile, of one row by N panels, `distance` elements apart; c: [N][panel].
template <int N, typename T>
HWY_NOINLINE void MultiplyPanels(const T* a, int64_t a_chunk, const T* b, int64_t distance, int64_t depth, bool first,
                                 T* c) {
  const Tag<T> d;
  while (true) {
    const int64_t steps = std::min(kChain, depth);
    Accumulators<T, N, 2> acc;
    acc.Clear();
    for (int64_t k = 0; k < steps; k += kChunk, a += a_chunk) {
      const int64_t count = std::min(kChunk, steps - k);
      for (int64_t i = 0; i < count; ++i, b += kPanel<T>) {
        const Vector<T> va = hn::Set(d, a[i]);
#pragma GCC unroll 16
        for (int n = 0; n < N; ++n) {
#pragma GCC unroll 2
          for (int v = 0; v < 2; ++v) {
            acc.at[n][v] = hn::MulAdd(va, hn::LoadU(d, b + n * distance + v * kLanes<T>), acc.at[n][v]);
          }
        }
      }
    }
    if (!first) acc.AddFrom(c, kPanel<T>);
    acc.Store(c, kPanel<T>);
    depth -= steps;
    if (depth == 0) return;
    first = false;
  }
}

// As CopyToChunks, of (x − mean) · rstd.
template <typename T>
HWY_INLINE void NormaliseToChunks(const T* x, int64_t stride, const Moments<T>* moments, int rows, int64_t depth,
                                  T* chunks) {
  const Tag<T> d;
  for (int64_t k = 0; k < depth; k += kChunk) {
    const int64_t count = std::min(kChunk, depth - k);
    for (int r = 0; r < rows; ++r, chunks += kChunk) {
      const T* from = x + r * stride + k;
      const auto mean = hn::Set(d, moments[r].mean), rstd = hn::Set(d, moments[r].rstd);
      const auto normalise = [&](Vector<T> v) HWY_ATTR { return hn::Mul(hn::Sub(v, mean), rstd); };
      int64_t i = 0;
      for (; i + kLanes<T> <= count; i += kLanes<T>) hn::StoreU(normalise(hn::LoadU(d, from + i)), d, chunks + i);
      if (i < count) StoreSome(d, normalise(LoadSome(d, from + i, count - i)), chunks + i, count - i);
    }
  }
}

// Copies one row of a tile's step. Less than a vector is read and written as a whole vector if the memory after it
// allows.
template <typename T>
HWY_INLINE void CopyStep(const T* from, int count, bool may_read, bool may_write, T* to) {
  const Tag<T> d;
  constexpr int L = kLanes<T>;
  if (count >= L) {
    for (int i = 0; i + L < count; i += L) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
    return hn::StoreU(hn::LoadU(d, from + count - L), d, to + count - L);  // overlaps the previous one
  }
  const auto v = may_read ? hn::LoadU(d, from) : LoadSome(d, from, static_cast<size_t>(count));
  may_write ? hn::StoreU(v, d, to) : StoreSome(d, v, to, static_cast<size_t>(count));
}

// Copies all tiles of a block of a transposed x: element (r, k) is at x[k · step + r]. A tile becomes [depth][its
// rows], so nothing has to be transposed.
template <typename T>
HWY_INLINE void CopySteps(const T* x, int64_t step, const RowTiles& tiles, int64_t depth, int64_t padded, T* steps) {
  constexpr int64_t kAhead = 16;  // steps: the latency of the L3 cache
  T* to[internal::TaskCut::kBlockRows];
  int sizes[internal::TaskCut::kBlockRows];
  for (int64_t t = 0; t < tiles.count; ++t) to[t] = steps + tiles.begin(t) * padded, sizes[t] = tiles.size(t);
  for (int64_t k = 0; k < depth; ++k, x += step) {
    const T* from = x;
    int64_t behind = tiles.rows;  // elements of this step from `from` on
    for (int64_t t = 0; t < tiles.count; ++t) {
      const int rows = sizes[t];
      if (k + kAhead < depth) __builtin_prefetch(from + kAhead * step, 0, 2);
      CopyStep(from, rows, behind >= kLanes<T>, (depth - k) * rows >= kLanes<T>, to[t]);
      from += rows, behind -= rows, to[t] += rows;
    }
  }
}

// Copies a block of a tile's rows of x into chunks, during the first panel that uses them. The first block computes the
// moments of the whole rows for the later ones.
template <typename T>
HWY_INLINE void CopyTile(const GemmTask<T>& task, int64_t row, int rows, int64_t k, int64_t depth, Moments<T>* moments,
                         T* chunks) {
  const T* x = task.x + row * task.x_stride;
  const std::optional<NormRule<T>>& norm = task.prologue->norm;
  if (!norm) return CopyToChunks(x + k, task.x_stride, rows, depth, chunks);
  if (k == 0) {
    for (int r = 0; r < rows; ++r) moments[r] = ComputeMoments(x + r * task.x_stride, task.K, *norm);
  }
  NormaliseToChunks(x + k, task.x_stride, moments, rows, depth, chunks);
}

// Prefetches the rows of x that are copied next, while the previous tile is multiplied.
template <typename T>
HWY_INLINE void PrefetchRows(const GemmTask<T>& task, int64_t row, int rows, int64_t k, int64_t depth,
                             Prefetch& prefetch) {
  const int64_t bytes = static_cast<int64_t>(sizeof(T)), line = static_cast<int64_t>(kAlignment);
  const int64_t groups = std::max<int64_t>(1, depth / Prefetch::kGroup);
  prefetch.row = reinterpret_cast<const char*>(task.x + row * task.x_stride + k);
  prefetch.stride = task.x_stride * bytes, prefetch.rows = rows, prefetch.row_index = 0;
  prefetch.row_lines = ((depth * bytes + line - 1) / line * rows + groups - 1) / groups;
}

// The memory that the tiles of one slice of W prefetch, spread evenly over them: the next slice, so that weights stream
// from memory while the multiply-add units are busy; after the last slice, the memory read next.
template <typename T>
HWY_INLINE Prefetch NextPrefetch(const GemmTask<T>& task, int64_t p, int64_t k, int64_t panel_begin, int64_t panel_end,
                                 int64_t tiles) {
  const internal::Slice next = internal::SliceAfter({p, k}, panel_begin, panel_end, task.block_depth, task.K);
  const int64_t depth = std::min(task.block_depth, task.K - next.k);
  const internal::CacheLines lines = next.panel >= task.panels
                                         ? task.next
                                         : internal::ToCacheLines(task.w + (next.panel * task.K + next.k) * kPanel<T>,
                                                                  depth * kPanel<T> * static_cast<int64_t>(sizeof(T)));
  return {{lines, tiles * (std::min(task.block_depth, task.K - k) / Prefetch::kGroup)}};
}

// A task of one row, which is multiplied by several panels at a time (row_kernel.h).
template <typename T>
HWY_INLINE void RunRow(const GemmTask<T>& task, int64_t row, int64_t panel_begin, int64_t panel_end, bool copied,
                       T* copy, T* c) {
  const bool in_place = task.x_chunk > 0;
  Moments<T> moments[1];
  for (int64_t k = 0; k < task.K || k == 0; k += task.block_depth) {
    const int64_t depth = std::min(task.block_depth, task.K - k);
    if (!in_place && !copied) CopyTile(task, row, 1, k, depth, moments, copy + k);
    const T* const a = in_place ? task.x + row * kChunk + k / kChunk * task.x_chunk : copy + k;
    const int64_t a_chunk = in_place ? task.x_chunk : kChunk, distance = task.K * kPanel<T>;
    for (int64_t p = panel_begin; p < panel_end;) {
      const T* const b = task.w + p * distance + k * kPanel<T>;
      T* const c_panels = c + (p - panel_begin) * kPanel<T>;
      const int count = internal::NextRowPanels(panel_end - p);
      static_assert(internal::kRowPanels == 4);
      switch (count) {
        case 1:
          MultiplyPanels<1>(a, a_chunk, b, distance, depth, k == 0, c_panels);
          break;
        case 2:
          MultiplyPanels<2>(a, a_chunk, b, distance, depth, k == 0, c_panels);
          break;
        case 3:
          MultiplyPanels<3>(a, a_chunk, b, distance, depth, k == 0, c_panels);
          break;
        default:
          MultiplyPanels<4>(a, a_chunk, b, distance, depth, k == 0, c_panels);
      }
      if (k + task.block_depth >= task.K) {
        for (int i = 0; i < count; ++i) {
          FinishPanel(task, Sums<T>{c_panels + i * kPanel<T>, kPanel<T>}, kPanel<T>, row, 1, p + i);
        }
      }
      p += count;
    }
  }
}

template <bool kBySteps, typename T>
HWY_INLINE void RunTask(const GemmTask<T>& task, int64_t row, int64_t rows, int64_t panel_begin, int64_t panel_end,
                        bool copied, T* copy, T* c) {
  const RowTiles tiles(rows);
  const bool in_place = !kBySteps && task.x_chunk > 0;
  Moments<T> moments[internal::TaskCut::kBlockRows];
  for (int64_t k = 0; k < task.K || k == 0; k += task.block_depth) {
    const int64_t depth = std::min(task.block_depth, task.K - k);
    const int64_t padded = (depth + kChunk - 1) / kChunk * kChunk;
    // Every block before this one has a depth of whole chunks.
    T* const a = in_place ? nullptr : copy + k * rows;
    if (kBySteps && !copied) {
      CopySteps(task.x + row * task.x_stride + k * task.x_step, task.x_step, tiles, depth, padded, a);
    }
    const bool last = k + task.block_depth >= task.K, single = last && k == 0;
    for (int64_t p = panel_begin; p < panel_end; ++p) {
      const T* b = task.w + (p * task.K + k) * kPanel<T>;
      const bool direct = last && HasDirectEpilogue(task, kPanel<T>, p);
      const bool asking = last && task.y_is_far;
      const bool copying = !kBySteps && !in_place && !copied && p == panel_begin;
      Prefetch prefetch = NextPrefetch(task, p, k, panel_begin, panel_end, tiles.count);
      const DirectEpilogue<T> ends =
          direct || asking ? MakeDirectEpilogue(task, kPanel<T>, row, p) : DirectEpilogue<T>{};
      T* const c_panel = single ? c : c + (p - panel_begin) * rows * kPanel<T>;
      for (int64_t t = 0; t < tiles.count; ++t) {
        const int64_t first = row + tiles.begin(t);
        const int size = tiles.size(t);
        T* const a_copy = in_place ? nullptr : a + tiles.begin(t) * padded;
        if (copying) {
          CopyTile(task, first, size, k, depth, moments + tiles.begin(t), a_copy);
          prefetch.row_lines = 0;
          if (t + 1 < tiles.count) {
            const bool whole = k == 0 && task.prologue->norm;
            PrefetchRows(task, first + size, tiles.size(t + 1), k, whole ? task.K : depth, prefetch);
          } else if (!last) {
            PrefetchRows(task, row, tiles.size(0), k + task.block_depth, depth, prefetch);
          }
        }
        const T* const a_tile = in_place ? task.x + first * kChunk + k / kChunk * task.x_chunk : a_copy;
        const DirectEpilogue<T> end = ends.RowsBelow(tiles.begin(t));
        if (asking) end.PrefetchLines(size, std::min<int64_t>(kPanel<T>, task.N - p * kPanel<T>));
        MultiplyTile<kBySteps>(size, a_tile, in_place ? task.x_chunk : size * kChunk, b, depth, prefetch, k == 0,
                               single && direct ? c : c_panel + tiles.begin(t) * kPanel<T>, direct ? &end : nullptr);
      }
      if (last && !direct) FinishPanel(task, Sums<T>{c_panel, kPanel<T>}, kPanel<T>, row, rows, p);
    }
  }
}

template <typename T>
HWY_INLINE void RunAnyTask(const GemmTask<T>& task, int64_t row, int64_t rows, int64_t panel_begin, int64_t panel_end,
                           bool copied, T* copy, T* c) {
  if (task.x_step == 1 && rows == 1) return RunRow(task, row, panel_begin, panel_end, copied, copy, c);
  if (task.x_step == 1) return RunTask<false>(task, row, rows, panel_begin, panel_end, copied, copy, c);
  RunTask<true>(task, row, rows, panel_begin, panel_end, copied, copy, c);
}

}  // namespace

void RunTaskFloat(const GemmTask<float>& task, int64_t row, int64_t rows, int64_t panel_begin, int64_t panel_end,
                  bool copied, float* copy, float* c) {
  RunAnyTask(task, row, rows, panel_begin, panel_end, copied, copy, c);
}
void RunTaskDouble(const GemmTask<double>& task, int64_t row, int64_t rows, int64_t panel_begin, int64_t panel_end,
                   bool copied, double* copy, double* c) {
  RunAnyTask(task, row, rows, panel_begin, panel_end, copied, copy, c);
}
int64_t GemmPanelFloat() { return kPanel<float>; }
int64_t GemmPanelDouble() { return kPanel<double>; }

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::simd {

HWY_EXPORT(RunTaskFloat);
HWY_EXPORT(RunTaskDouble);
HWY_EXPORT(GemmPanelFloat);
HWY_EXPORT(GemmPanelDouble);

namespace {

using internal::GemmTask;
using internal::Grow;
using internal::PanelOrder;
using internal::TaskCut;

// A thread's copy of rows of x, and its sums; grows to the size of the largest product.
template <typename T>
struct alignas(kAlignment) Scratch {
  Tensor<T> copy, c;
  int64_t row = -1;  // the rows of this product in `copy`
};

// Scratch of all threads that may work for this one. The caller owns it, so that its first call allocates for all of
// them: memory owned by workers would grow whenever one of them first gets a task, perhaps much later.
template <typename T>
Scratch<T>* ScratchOfThreads(int threads, int64_t copy_size, int64_t c_size) {
  static thread_local std::vector<Scratch<T>> scratch;
  if (static_cast<int>(scratch.size()) < threads) scratch.resize(static_cast<size_t>(threads));
  for (Scratch<T>& one : scratch) {
    Grow(one.copy, copy_size);
    Grow(one.c, c_size);
    one.row = -1;
  }
  return scratch.data();
}

template <typename T>
void Dispatch(const GemmTask<T>& task, int64_t row, int64_t rows, int64_t begin, int64_t end, bool copied, T* copy,
              T* c) {
  if constexpr (sizeof(T) == 4) {
    QKV_DISPATCH(RunTaskFloat)(task, row, rows, begin, end, copied, copy, c);
  } else {
    QKV_DISPATCH(RunTaskDouble)(task, row, rows, begin, end, copied, copy, c);
  }
}

}  // namespace

namespace internal {

template <typename T>
int64_t GemmPanel() {
  return sizeof(T) == 4 ? QKV_DISPATCH(GemmPanelFloat)() : QKV_DISPATCH(GemmPanelDouble)();
}
template int64_t GemmPanel<float>();
template int64_t GemmPanel<double>();

// The rows of x (this times kBlockRows) should fit in L2: 1 MiB with AVX-512, otherwise 512 KiB. Measured on Zen 5: 768
// against 256 gains 3 % at K = 768 and 9 % at K = 3072.
int64_t GemmBlockDepth() { return ActiveIsa() >= Isa::kAvx512 ? 768 : 384; }

// `depth`: steps of K.
template <typename T>
static CacheLines FirstSlice(const T* w, int64_t depth, int64_t panel) {
  return ToCacheLines(w, depth * panel * static_cast<int64_t>(sizeof(T)));
}

template <typename T>
void RunProduct(const GemmTask<T>& task, int64_t M, int64_t panels, const DepthCut& sections) {
  const int64_t width = GemmPanel<T>(), depth = std::min(task.K, sections.depth);
  const int threads = NumThreads();
  const TaskCut cut(M, panels, std::max(1, threads / static_cast<int>(sections.count)));
  const int64_t padded = (depth + kRowChunk - 1) / kRowChunk * kRowChunk;
  const int64_t copied = task.x_chunk > 0 ? 0 : cut.rows * padded;
  Scratch<T>* const scratch = ScratchOfThreads<T>(threads, copied, cut.rows * cut.panels * width);
  const CacheLines first_slice = FirstSlice(task.w, std::min(task.block_depth, depth), width);
  ParallelTasks(sections.count * cut.count(), [&](int64_t t, int thread) {
    const TaskCut::Part part = cut.at(t % cut.count());
    const int64_t s = t / cut.count(), k = s * sections.depth;
    GemmTask<T> section = task;
    section.K = std::min(sections.depth, task.K - k);
    section.panels = panels;
    section.next = sections.count > 1 ? CacheLines{} : cut.NextCacheLines(t, first_slice, task.next);
    section.x += k * task.x_step;
    section.w += k * panels * width;
    section.y += s * sections.y_distance;
    Scratch<T>& own = scratch[thread];
    // A thread that continues with the same rows finds them copied.
    const int64_t row = s * M + part.row;
    Dispatch(section, part.row, part.rows, part.panel_begin, part.panel_end, own.row == row, own.copy.data(),
             own.c.data());
    own.row = row;
  });
}
template void RunProduct(const GemmTask<float>&, int64_t, int64_t, const DepthCut&);
template void RunProduct(const GemmTask<double>&, int64_t, int64_t, const DepthCut&);

}  // namespace internal

template <typename T>
PackedMatrix<T>::PackedMatrix(View<const T> w, Gate gate, const Packing& packing)
    : gate_(gate), precision_(packing.precision) {
  Require(w.rank() == 2, "gemm: expected weights [N, K], got {}", w.shape());
  const bool gated = gate != Gate::kNone;
  Require(!gated || w.dim(0) % 2 == 0, "gemm: a gate and its values have {} rows together, an odd number", w.dim(0));
  N_ = gated ? w.dim(0) / 2 : w.dim(0), K_ = w.dim(1);
  if (precision_ != Precision::kFloat32) {
    if constexpr (sizeof(T) == 4) {
      low_ = internal::PackLow(w, gate, packing);
      return;
    }
    Fail("gemm: double has no lower precision");
  }
  const int64_t panel = internal::GemmPanel<T>();
  const PanelOrder order(gate, N_, panel);
  panels_ = packing.New<T>({order.panels, K_, panel});
  ParallelFor(order.panels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      T* out = panels_.data() + p * K_ * panel;
      for (int64_t i = 0; i < panel; ++i) {
        const int64_t row = order.SourceRow(p, i);
        for (int64_t k = 0; k < K_; ++k) out[k * panel + i] = row >= 0 ? *w.at(row, k) : T{0};
      }
    }
  });
}

template <typename T>
PackedMatrix<T>::PackedMatrix(const PackedForm& form, PackedParts<T> parts)
    : N_(form.outputs), K_(form.inputs), gate_(form.gate), precision_(form.precision) {
  if (form.precision != Precision::kFloat32) {
    if constexpr (sizeof(T) == 4) {
      low_ = internal::RestoreLow(form, std::move(parts.groups), std::move(parts.columns));
      return;
    }
    Fail("gemm: double has no lower precision");
  }
  const int64_t panel = internal::GemmPanel<T>();
  const Shape shape{PanelOrder(gate_, N_, panel).panels, K_, panel};
  Require(parts.panels.shape() == shape, "gemm: expected packed weights {}, got {}", shape, parts.panels.shape());
  panels_ = std::move(parts.panels);
}

template <typename T>
internal::CacheLines PackedMatrix<T>::first_slice() const {
  if (precision_ != Precision::kFloat32) return internal::FirstSlice(low_);
  return internal::FirstSlice(data(), std::min(internal::GemmBlockDepth(), K_), panel());
}

template <typename T>
void Gemm(View<const T> x, const PackedMatrix<T>& w, const Epilogue<T>& epilogue, View<T> y,
          const Prologue<T>& prologue) {
  const int64_t N = w.outputs(), K = w.inputs();
  const bool chunks = x.rank() == 3;
  Require(chunks ? x.dim(1) * kRowChunk == K && x.dim(2) == kRowChunk : x.rank() == 2 && x.dim(1) == K,
          "gemm: expected x [M, {}], got {}", K, x.shape());
  const int64_t M = x.dim(0);
  const bool heads = y.rank() == 3;
  const int64_t head_width = y.rank() >= 2 ? y.dim(y.rank() - 1) : 0;
  Require((heads || y.rank() == 2) && y.dim(0) == M && head_width * (heads ? y.dim(1) : 1) == N,
          "gemm: expected y [{}, {}], got {}", M, N, y.shape());
  Require((x.stride(x.rank() - 1) == 1 || K <= 1) && (y.stride(y.rank() - 1) == 1 || head_width <= 1),
          "gemm: expected dense rows of x and y");
  Require(!heads || !epilogue.residual, "gemm: no residual is added to heads");
  if (M == 0 || N == 0) return;
  GemmTask<T> task{x.data(),
                   x.stride(0),
                   1,
                   w.data(),
                   y.data(),
                   y.stride(0),
                   head_width,
                   heads ? y.stride(1) : 0,
                   N,
                   K,
                   internal::GemmBlockDepth(),
                   w.gate(),
                   &prologue,
                   &epilogue};
  if (chunks) {
    Require((M == 1 || x.stride(0) == kRowChunk) && x.stride(1) > 0, "gemm: expected rows in chunks {} apart",
            kRowChunk);
    Require(w.precision() == Precision::kFloat32 && !prologue.norm, "gemm: rows in chunks are for float, as they are");
    task.x_chunk = x.stride(1);
  }
  task.next = w.next();
  if constexpr (sizeof(T) == 4) {
    if (w.precision() != Precision::kFloat32) return internal::GemmLow(task, M, w.precision(), w.low());
  }
  const int64_t width = internal::GemmPanel<T>();
  Require(w.panel() == width, "gemm: the weights were packed for another instruction set (panels of {}, not {})",
          w.panel(), width);

  internal::RunProduct(task, M, w.panels(), {1, K, 0});
}

template class PackedMatrix<float>;
template class PackedMatrix<double>;
template void Gemm(View<const float>, const PackedMatrix<float>&, const Epilogue<float>&, View<float>,
                   const Prologue<float>&);
template void Gemm(View<const double>, const PackedMatrix<double>&, const Epilogue<double>&, View<double>,
                   const Prologue<double>&);

}  // namespace qkv::simd
#endif  // HWY_ONCE
