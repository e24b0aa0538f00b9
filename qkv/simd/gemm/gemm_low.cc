// Matrix products in bfloat16 and int8. As in gemm.cc, y is cut into tasks and K into blocks. But all threads together
// convert all rows of x before the first task: converted rows take half or a quarter of the memory, and the product is
// so short that a copy per thread would cost as much.
// An int8 row is x[k] ≈ offset + scale · u[k] with u in [0, activation_max]: a real-valued offset wastes no levels if
// all of a row is on one side of zero. Hence
//   Σ_k x[k] w[n][k] ≈ s[n] · (scale · Σ_k u[k] q[n][k] + offset · Σ_k q[n][k]).
#include "qkv/simd/gemm/gemm_low.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "qkv/core/dtype.h"
#include "qkv/core/parallel.h"
#include "qkv/simd/gemm/row_kernel.h"
#include "qkv/simd/isa.h"
#include "qkv/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/simd/gemm/gemm_low.cc"
#include "hwy/foreach_target.h"
//
#ifndef QKV_SIMD_GEMM_LOW_TASK_
#define QKV_SIMD_GEMM_LOW_TASK_
namespace qkv::simd::internal {

// Steps of a transposed x converted at a time, a multiple of every chunk.
inline constexpr int64_t kLowSteps = 128;

struct LowTask {
  GemmTask<float> gemm;
  LowOperand w;
  const TileKernel& kernel;
  int64_t element_bytes;  // of a converted row: 64 per chunk
  int64_t block_depth;
  int64_t first_row;  // of the converted rows
  uint8_t* rows;      // converted, in the kernel's order: tile after tile [depth / chunk][tile's rows][chunk]
  float* offsets;     // int8: [rows][2], scale and offset
  RowMultiply multiply_row = nullptr;

  uint8_t* RowsAt(int64_t row) const { return rows + (row - first_row) * w.depth * element_bytes; }
  float* OffsetsAt(int64_t row) const { return offsets + 2 * (row - first_row); }
};

}  // namespace qkv::simd::internal
#endif
#include "qkv/simd/dispatch.h"
#include "qkv/simd/gemm/bf16-inl.h"
#include "qkv/simd/gemm/epilogue-inl.h"
#include "qkv/simd/gemm/tile-inl.h"
#include "qkv/simd/gemm/transpose-inl.h"
#include "qkv/simd/rows/row_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {
namespace {

using internal::LowTask;
using internal::TileKernel;

// f(64 bytes of output, elements of x for them, zero-padded) for each chunk of one row.
template <int kElements, class F>
HWY_INLINE void ForChunks(const float* x, int64_t K, int64_t depth, int rows, uint8_t* to, F&& f) {
  int64_t k = 0;
  for (; k + kElements <= K; k += kElements, to += rows * 64) f(to, x + k);
  for (; k < depth; k += kElements, to += rows * 64) {
    HWY_ALIGN float rest[kElements] = {};
    std::copy(x + k, x + std::max(k, K), rest);
    f(to, rest);
  }
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Normalise(D d, V x, const Moments<float>* moments) {
  return moments ? hn::Mul(hn::Sub(x, hn::Set(d, moments->mean)), hn::Set(d, moments->rstd)) : x;
}

HWY_INLINE void FloatRow(const float* x, const Moments<float>* moments, int64_t K, int64_t depth, int rows,
                         uint8_t* to) {
  const Tag<float> d;
  ForChunks<16>(x, K, depth, rows, to, [&](uint8_t* chunk, const float* from) HWY_ATTR {
    float* out = reinterpret_cast<float*>(chunk);
    for (int i = 0; i < 16; i += kLanes<float>) hn::StoreU(Normalise(d, hn::LoadU(d, from + i), moments), d, out + i);
  });
}

// Rounds to nearest, ties to even; NaN stays NaN.
HWY_INLINE void Bf16Row(const float* x, const Moments<float>* moments, int64_t K, int64_t depth, int rows,
                        uint8_t* to) {
  const Tag<float> d;
  ForChunks<32>(x, K, depth, rows, to, [&](uint8_t* chunk, const float* from) HWY_ATTR {
    uint16_t* out = reinterpret_cast<uint16_t*>(chunk);
    for (int i = 0; i < 32; i += kLanes<float>) StoreBf16(Normalise(d, hn::LoadU(d, from + i), moments), out + i);
  });
}

// Minimum and maximum of a row; `strange` is NaN if any element is NaN or infinite, else 0.
struct Extent {
  float low = 0, high = 0, strange = 0;
};

HWY_INLINE Extent FindExtent(const float* x, int64_t K) {
  const Tag<float> d;
  if (K == 0) return {};
  constexpr int kChains = 4;  // independent chains hide the latency
  Vector<float> low[kChains], high[kChains], strange[kChains];
#pragma GCC unroll 4
  for (int i = 0; i < kChains; ++i) low[i] = high[i] = hn::Set(d, x[0]), strange[i] = hn::Zero(d);
  const auto take = [&](int i, Vector<float> v) HWY_ATTR {
    low[i] = hn::Min(low[i], v), high[i] = hn::Max(high[i], v);
    strange[i] = hn::MulAdd(v, hn::Zero(d), strange[i]);  // ∞ · 0 is NaN too
  };
  int64_t k = 0;
  for (; k + kChains * kLanes<float> <= K; k += kChains * kLanes<float>) {
#pragma GCC unroll 4
    for (int i = 0; i < kChains; ++i) take(i, hn::LoadU(d, x + k + i * kLanes<float>));
  }
  for (; k < K; ++k) take(0, hn::Set(d, x[k]));
#pragma GCC unroll 4
  for (int i = 1; i < kChains; ++i) {
    low[0] = hn::Min(low[0], low[i]), high[0] = hn::Max(high[0], high[i]);
    strange[0] = hn::Add(strange[0], strange[i]);
  }
  return {hn::GetLane(hn::MinOfLanes(d, low[0])), hn::GetLane(hn::MaxOfLanes(d, high[0])),
          hn::GetLane(hn::SumOfLanes(d, strange[0]))};
}

// `offset` receives scale and offset; both are NaN if any element is NaN or infinite. With moments the levels are those
// of x itself, since (x − mean) · rstd is a linear function of x.
HWY_INLINE void Int8Row(const float* x, const Moments<float>* moments, int64_t K, int64_t depth, int rows, int greatest,
                        uint8_t* to, float* offset) {
  const Tag<float> d;
  const hn::RebindToUnsigned<Tag<float>> du;
  const hn::Rebind<uint8_t, Tag<float>> d8;
  const Extent extent = FindExtent(x, K);
  const float low = extent.low;
  // A range whose inverse is infinite counts as empty.
  const float range = extent.high - low, inverse = static_cast<float>(greatest) / range;
  const bool flat = !(inverse <= std::numeric_limits<float>::max());
  const float factor = flat ? 0 : inverse, step = flat ? 0 : range / static_cast<float>(greatest);
  offset[0] = (moments ? step * moments->rstd : step) + extent.strange;
  offset[1] = (moments ? (low - moments->mean) * moments->rstd : low) + extent.strange;
  const auto vlow = hn::Set(d, low), vfactor = hn::Set(d, factor);
  const auto magic = hn::Set(d, RoundingMagic(0.0f));
  ForChunks<64>(x, K, depth, rows, to, [&](uint8_t* chunk, const float* from) HWY_ATTR {
    for (int i = 0; i < 64; i += kLanes<float>) {
      const auto above = hn::Sub(hn::LoadU(d, from + i), vlow);
      const auto level = hn::BitCast(du, hn::MulAdd(above, vfactor, magic));  // in the lowest bits, rounded
      hn::StoreU(hn::TruncateTo(d8, level), d8, chunk + i);
    }
  });
}

// Converts steps [begin, end) of all tiles of a block of a transposed x: element (r, k) is at x[k · step + r].
HWY_INLINE void Bf16Columns(const LowTask& task, const RowTiles& tiles, int64_t row, int64_t begin, int64_t end) {
  constexpr int64_t kStep = 32, kPairs = kStep / 2, L = kLanes<float>;  // kStep: elements of a chunk
  const Tag<float> d;
  HWY_ALIGN float pairs[kPairs * L], nowhere[kPairs];
  float* to[internal::TaskCut::kBlockRows + L];
  std::fill(to, to + tiles.rows + L, &nowhere[0]);
  const auto load = [&](int64_t k, int64_t first) HWY_ATTR {
    if (k >= task.gemm.K) return hn::Zero(d);
    const float* x = task.gemm.x + k * task.gemm.x_step + row + first;
    if (k + kStep < task.gemm.K) __builtin_prefetch(x + kStep * task.gemm.x_step);
    return tiles.rows < L ? LoadSome(d, x, static_cast<size_t>(tiles.rows)) : hn::LoadU(d, x);
  };
  for (int64_t k = begin; k < end; k += kStep) {
    for (int64_t t = 0; t < tiles.count; ++t) {
      const int64_t rows = tiles.size(t);
      auto* chunk = reinterpret_cast<float*>(task.RowsAt(row + tiles.begin(t)) + k / kStep * rows * kAlignment);
      for (int64_t r = 0; r < rows; ++r) to[tiles.begin(t) + r] = chunk + r * kPairs;
    }
    for (int64_t r = 0; r < tiles.rows; r += L) {
      const int64_t first = std::max<int64_t>(0, std::min(r, tiles.rows - L));  // the last vector of rows overlaps
      for (int64_t p = 0; p < kPairs; ++p) {
        hn::Store(Pairs(load(k + 2 * p, first), load(k + 2 * p + 1, first)), d, pairs + p * L);
      }
      TransposeOut(pairs, L, kPairs, to + first);
    }
  }
}

HWY_INLINE void Convert(const LowTask& task, int64_t row, int rows) {
  const GemmTask<float>& gemm = task.gemm;
  uint8_t* to = task.RowsAt(row);
  for (int r = 0; r < rows; ++r, to += 64) {
    const float* x = gemm.x + (row + r) * gemm.x_stride;
    const std::optional<NormRule<float>>& norm = gemm.prologue->norm;
    const Moments<float> of_row = norm ? ComputeMoments(x, gemm.K, *norm) : Moments<float>{};
    const Moments<float>* moments = norm ? &of_row : nullptr;
    if (task.kernel.chunk == 64) {
      Int8Row(x, moments, gemm.K, task.w.depth, rows, task.kernel.activation_max, to, task.OffsetsAt(row + r));
    } else if (task.kernel.chunk == 32) {
      Bf16Row(x, moments, gemm.K, task.w.depth, rows, to);
    } else {
      FloatRow(x, moments, gemm.K, task.w.depth, rows, to);
    }
  }
}

// Converts sums of levels to floats, with the scales of their row and column.
struct Int8Sums {
  const int32_t* c;  // [rows][panel]
  int64_t panel;
  const float* offsets;      // [rows][2]
  const float *scale, *sum;  // [panel]

  HWY_INLINE Vector<float> operator()(int64_t r, int64_t i) const {
    const Tag<float> d;
    const auto levels = hn::ConvertTo(d, hn::LoadU(Tag<int32_t>(), c + r * panel + i));
    const auto factor = hn::Mul(hn::Set(d, offsets[2 * r]), hn::LoadU(d, scale + i));
    return hn::MulAdd(levels, factor, hn::Mul(hn::Set(d, offsets[2 * r + 1]), hn::LoadU(d, sum + i)));
  }
};

HWY_INLINE void FinishRows(const LowTask& task, const void* c, int64_t row, int64_t rows, int64_t p) {
  const int64_t panel = task.kernel.panel;
  if (task.kernel.chunk == 64) {
    const float* scale = task.w.columns + p * panel;
    const Int8Sums sums{static_cast<const int32_t*>(c), panel, task.OffsetsAt(row), scale,
                        scale + task.w.panels * panel};
    FinishPanel(task.gemm, sums, panel, row, rows, p);
  } else {
    FinishPanel(task.gemm, Sums<float>{static_cast<const float*>(c), panel}, panel, row, rows, p);
  }
}

}  // namespace

// Tile t of a task's rows [row, row + rows), or fewer rows at the end.
void ConvertTile(const LowTask& task, int64_t row, int64_t rows, int64_t t) {
  const RowTiles tiles(rows, task.kernel.rows);
  if (t < tiles.count) Convert(task, row + tiles.begin(t), tiles.size(t));
}

// Converts part `piece` of the steps of the rows of a transposed x.
void ConvertSteps(const LowTask& task, int64_t row, int64_t rows, int64_t piece) {
  const int64_t begin = piece * internal::kLowSteps;
  Bf16Columns(task, RowTiles(rows, task.kernel.rows), row, begin, std::min(task.w.depth, begin + internal::kLowSteps));
}

// c: [panels of the task][panel]
HWY_INLINE void RunLowRow(const LowTask& task, const internal::TaskCut::Part& part, float* c) {
  const int64_t panel = task.kernel.panel, depth = task.w.depth;
  const int64_t panel_bytes = panel * (task.kernel.group == 4 ? 1 : 2);
  for (int64_t k = 0; k < depth; k += task.block_depth) {
    for (int64_t p = part.panel_begin; p < part.panel_end;) {
      const int count = internal::NextRowPanels(part.panel_end - p);
      float* const c_panels = c + (p - part.panel_begin) * panel;
      task.multiply_row(count, task.RowsAt(part.row) + k * task.element_bytes,
                        task.w.groups + (p * depth + k) * panel_bytes, depth * panel_bytes,
                        std::min(task.block_depth, depth - k), k == 0, c_panels);
      if (k + task.block_depth >= depth) {
        for (int i = 0; i < count; ++i) FinishRows(task, c_panels + i * panel, part.row, 1, p + i);
      }
      p += count;
    }
  }
}

// c: [panels of the task][rows][panel] of float or int32.
void RunLowTask(const LowTask& task, const internal::TaskCut::Part& part, float* c) {
  if (part.rows == 1 && task.multiply_row != nullptr) return RunLowRow(task, part, c);
  const TileKernel& kernel = task.kernel;
  const int64_t panel = kernel.panel, depth = task.w.depth, weight_bytes = kernel.group == 4 ? 1 : 2;
  const RowTiles tiles(part.rows, kernel.rows);
  const auto slice = [&](int64_t p, int64_t k) { return task.w.groups + (p * depth + k) * panel * weight_bytes; };
  const auto depth_at = [&](int64_t k) { return std::min(task.block_depth, depth - k); };
  for (int64_t k = 0; k < depth; k += task.block_depth) {
    const bool last = k + task.block_depth >= depth, single = last && k == 0;
    for (int64_t p = part.panel_begin; p < part.panel_end; ++p) {
      // Prefetched by the tiles of this slice, spread evenly: the next slice, or the memory read next.
      const internal::Slice after =
          internal::SliceAfter({p, k}, part.panel_begin, part.panel_end, task.block_depth, depth);
      const internal::CacheLines ahead =
          after.panel >= task.w.panels
              ? task.gemm.next
              : internal::ToCacheLines(slice(after.panel, after.k), depth_at(after.k) * panel * weight_bytes);
      const bool direct = last && HasDirectEpilogue(task.gemm, panel, p);
      const char* next = ahead.begin;
      // Divides here, not per tile: a tile may be as short as a few divisions.
      const int64_t least = ahead.count / tiles.count, larger = ahead.count % tiles.count;
      const DirectEpilogue<float> end =
          direct ? MakeDirectEpilogue(task.gemm, panel, part.row, p) : DirectEpilogue<float>{};
      float* const c_panel = single ? c : c + (p - part.panel_begin) * part.rows * panel;
      for (int64_t t = 0; t < tiles.count; ++t) {
        const int64_t row = tiles.begin(t), share = least + (t < larger);
        const int size = tiles.size(t);
        if (direct && task.gemm.y_is_far) end.RowsBelow(row).PrefetchLines(size, panel);
        kernel.multiply(size, task.RowsAt(part.row + row) + k * task.element_bytes * size, slice(p, k), depth_at(k),
                        k == 0, c_panel + row * panel, share == 0 ? nullptr : next, share);
        next += share * 64;
      }
      if (last) FinishRows(task, c_panel, part.row, part.rows, p);
    }
  }
  if (kernel.finish) kernel.finish();
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::simd {

HWY_EXPORT(ConvertSteps);
HWY_EXPORT(ConvertTile);
HWY_EXPORT(RunLowTask);

namespace internal {
namespace {

// Rows converted at a time, in blocks of TaskCut, if that is enough work for all threads: limits the memory.
constexpr int64_t kSlabBlocks = 4;
// Depth of a block, in bytes of a row as in gemm.cc.
int64_t BlockDepth(const TileKernel& kernel) { return (ActiveIsa() >= Isa::kAvx512 ? 48 : 24) * kernel.chunk; }

int64_t RoundUp(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// Symmetric quantisation of one output. Returns the scale, NaN if any weight is NaN or infinite.
float RowScale(View<const float> w, int64_t row, int weight_max) {
  float greatest = 0, strange = 0;
  for (int64_t k = 0; k < w.dim(1); ++k) {
    const float value = *w.at(row, k);
    greatest = std::max(greatest, std::abs(value)), strange += value * 0;
  }
  return greatest / static_cast<float>(weight_max) + strange;
}

void PackInt8(View<const float> w, const PanelOrder& order, int64_t p, LowPanels& low) {
  const int64_t panel = low.kernel->panel, depth = low.depth;
  for (int64_t i = 0; i < panel; ++i) {
    const int64_t row = order.SourceRow(p, i);
    if (row < 0) continue;
    const float scale = RowScale(w, row, low.kernel->weight_max), inverse = 1 / scale;
    int64_t sum = 0;
    // Levels stay 0 if all weights are 0 (or too small to have an inverse), or one is not finite.
    for (int64_t k = 0; k < w.dim(1) && std::isfinite(inverse); ++k) {
      const auto level = static_cast<int8_t>(std::nearbyint(*w.at(row, k) * inverse));
      low.groups[((p * depth + k) / 4 * panel + i) * 4 + k % 4] = static_cast<uint8_t>(level);
      sum += level;
    }
    low.columns[p * panel + i] = scale;
    low.columns[(low.panels + p) * panel + i] = scale * static_cast<float>(sum);
  }
}

void PackBf16(View<const float> w, const PanelOrder& order, int64_t p, LowPanels& low) {
  const int64_t panel = low.kernel->panel, depth = low.depth;
  for (int64_t i = 0; i < panel; ++i) {
    const int64_t row = order.SourceRow(p, i);
    if (row < 0) continue;
    for (int64_t k = 0; k < w.dim(1); ++k) {
      const uint16_t bits = ToBFloat16(*w.at(row, k)).bits;
      std::memcpy(low.groups.data() + ((p * depth + k) / 2 * panel + i) * 4 + k % 2 * 2, &bits, sizeof(bits));
    }
  }
}

// All properties except the memory.
LowPanels MakeLowPanels(const PackedForm& form) {
  LowPanels low;
  low.kernel = &SelectTileKernel(form.precision);
  const TileKernel& kernel = *low.kernel;
  Require(form.precision != Precision::kInt8 ||
              form.inputs <= std::numeric_limits<int32_t>::max() / (kernel.activation_max * kernel.weight_max),
          "gemm: int8 sums of {} products do not fit 32 bits", form.inputs);
  low.panels = PanelOrder(form.gate, form.outputs, kernel.panel).panels;
  low.depth = RoundUp(std::max<int64_t>(form.inputs, 1), kernel.chunk);
  return low;
}
Shape GroupsShape(const LowPanels& low) {
  return {low.panels, low.depth / low.kernel->group, low.kernel->panel, 4};  // 4 bytes a group
}
Shape ColumnsShape(const LowPanels& low) { return {2, low.panels * low.kernel->panel}; }

// Owned by the caller, as in gemm.cc.
struct LowScratch {
  Tensor<uint8_t> rows;
  Tensor<float> offsets;
  std::vector<Tensor<float>> c;  // per thread
};

}  // namespace

const TileKernel& SelectTileKernel(Precision precision) {
  const Isa isa = ActiveIsa();
#if HWY_ARCH_X86_64
  if (precision == Precision::kInt8) {
    if (isa == Isa::kAmx) return kInt8Amx;
    if (isa == Isa::kAvx512 && HasAvx512Vnni()) return kInt8Avx512Vnni;
    if (isa == Isa::kAvxVnni) return kInt8AvxVnni;
    if (isa >= Isa::kAvx2) return kInt8Avx2;
  } else {
    if (isa == Isa::kAmx) return kBf16Amx;
    if (isa == Isa::kAvx512 && Avx512Bf16IsFaster()) return kBf16Avx512;
  }
#endif
  return precision == Precision::kInt8 ? Int8Pairs() : Bf16Widened();
}

RowMultiply FindRowMultiply(const TileKernel& kernel) {
#if HWY_ARCH_X86_64
  if (&kernel == &kInt8Avx2) return kInt8Avx2Row;
  if (&kernel == &kInt8AvxVnni) return kInt8AvxVnniRow;
  if (&kernel == &kInt8Avx512Vnni) return kInt8Avx512VnniRow;
  if (&kernel == &kBf16Avx512) return kBf16Avx512Row;
#endif
  return &kernel == &Bf16Widened() ? Bf16WidenedRow() : nullptr;
}

LowPanels PackLow(View<const float> w, Gate gate, const Packing& packing) {
  const Precision precision = packing.precision;
  const int64_t N = gate == Gate::kNone ? w.dim(0) : w.dim(0) / 2, K = w.dim(1);
  LowPanels low = MakeLowPanels({N, K, gate, precision});
  low.groups = packing.New<uint8_t>(GroupsShape(low));
  std::ranges::fill(low.groups.span(), uint8_t{0});
  if (precision == Precision::kInt8) {
    low.columns = packing.New<float>(ColumnsShape(low));
    std::ranges::fill(low.columns.span(), 0.f);
  }
  const PanelOrder order(gate, N, low.kernel->panel);
  ParallelFor(low.panels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      precision == Precision::kInt8 ? PackInt8(w, order, p, low) : PackBf16(w, order, p, low);
    }
  });
  return low;
}

LowPanels RestoreLow(const PackedForm& form, Tensor<uint8_t> groups, Tensor<float> columns) {
  LowPanels low = MakeLowPanels(form);
  Require(groups.shape() == GroupsShape(low), "gemm: expected packed weights {}, got {}", GroupsShape(low),
          groups.shape());
  const Shape wanted = form.precision == Precision::kInt8 ? ColumnsShape(low) : Shape{0};
  Require(columns.shape() == wanted, "gemm: expected scales {}, got {}", wanted, columns.shape());
  low.groups = std::move(groups), low.columns = std::move(columns);
  return low;
}

namespace {

LowOperand MakeLowOperand(const LowPanels& w) {
  return {w.kernel, w.groups.data(), w.columns.data(), w.panels, w.depth};
}

CacheLines FirstSlice(const LowOperand& w) {
  return ToCacheLines(w.groups, std::min(BlockDepth(*w.kernel), w.depth) * w.kernel->panel * 4 / w.kernel->group);
}

}  // namespace

CacheLines FirstSlice(const LowPanels& w) { return FirstSlice(MakeLowOperand(w)); }

void GemmLow(const GemmTask<float>& task, int64_t M, Precision precision, const LowPanels& w) {
  Require(w.kernel == &SelectTileKernel(precision),
          "gemm: the weights were packed for another instruction set ({}, not {})", w.kernel->name,
          SelectTileKernel(precision).name);
  RunLowProduct(task, M, MakeLowOperand(w), {1, w.depth, 0});
}

void RunLowProduct(const GemmTask<float>& gemm, int64_t M, const LowOperand& w, const DepthCut& sections) {
  const TileKernel& kernel = *w.kernel;
  static thread_local LowScratch scratch;
  const int threads = NumThreads();
  const int64_t slab_rows = TaskCut::kBlockRows * std::max<int64_t>(kSlabBlocks, threads);
  const int64_t slabs = (M + slab_rows - 1) / slab_rows, most = (M + slabs - 1) / slabs;
  const int64_t element_bytes = 64 / kernel.chunk, section_bytes = most * sections.depth * element_bytes;
  Grow(scratch.rows, sections.count * section_bytes);
  Grow(scratch.offsets, most * 2);
  if (static_cast<int>(scratch.c.size()) < threads) scratch.c.resize(static_cast<size_t>(threads));
  const CacheLines first_slice = FirstSlice(w);
  const RowMultiply multiply_row = FindRowMultiply(kernel);

  for (int64_t slab = 0; slab < slabs; ++slab) {
    const int64_t first = slab * M / slabs, rows = (slab + 1) * M / slabs - first;
    uint8_t* const converted = scratch.rows.data();  // this thread's: workers have a `scratch` of their own
    float* const offsets = scratch.offsets.data();
    Tensor<float>* const c = scratch.c.data();
    const auto section = [&](int64_t s) {
      LowTask task{
          gemm,    w,           kernel, element_bytes, BlockDepth(kernel), first, converted + s * section_bytes,
          offsets, multiply_row};
      const int64_t k = s * sections.depth;
      task.gemm.K = std::min(sections.depth, gemm.K - k);
      task.gemm.x += k * gemm.x_step, task.gemm.y += s * sections.y_distance;
      task.w.depth = std::min(sections.depth, w.depth - k);
      task.w.groups += k * w.panels * kernel.panel * 4 / kernel.group;
      return task;
    };
    const TaskCut cut(rows, w.panels, std::max(1, threads / static_cast<int>(sections.count)));
    for (Tensor<float>& one : scratch.c) Grow(one, cut.rows * cut.panels * kernel.panel);
    const int64_t pieces =
        gemm.x_step == 1 ? (cut.rows + kernel.rows - 1) / kernel.rows : (sections.depth + kLowSteps - 1) / kLowSteps;
    const int64_t parts = cut.row_blocks * pieces;
    ParallelTasks(sections.count * parts, [&](int64_t t, int) {
      const int64_t block = t % parts / pieces, row = cut.FirstRow(block), block_rows = cut.FirstRow(block + 1) - row;
      if (gemm.x_step == 1) {
        QKV_DISPATCH(ConvertTile)(section(t / parts), first + row, block_rows, t % pieces);
      } else {
        QKV_DISPATCH(ConvertSteps)(section(t / parts), first + row, block_rows, t % pieces);
      }
    });
    ParallelTasks(sections.count * cut.count(), [&](int64_t t, int thread) {
      TaskCut::Part part = cut.at(t % cut.count());
      part.row += first;
      LowTask task = section(t / cut.count());
      task.gemm.next = sections.count > 1
                           ? CacheLines{}
                           : cut.NextCacheLines(t, first_slice, slab + 1 < slabs ? first_slice : gemm.next);
      QKV_DISPATCH(RunLowTask)(task, part, c[thread].data());
    });
  }
}

}  // namespace internal

PrecisionSupport Describe(Precision precision) {
  if (precision == Precision::kFloat32) return {"fp32", true};
  const internal::TileKernel& kernel = internal::SelectTileKernel(precision);
  return {kernel.name, kernel.chunk != 16};
}

}  // namespace qkv::simd
#endif  // HWY_ONCE
