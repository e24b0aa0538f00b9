// As tile.cc, but the two products use a tile kernel, which sums over pairs: of elements for the scores, of keys for
// the output. So values are transposed once per block of keys, and weights are packed in pairs of rows.
#include "qkv/simd/attention/bf16.h"

#include <algorithm>

#include "qkv/simd/gemm/gemm_low.h"
#include "qkv/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/simd/attention/bf16.cc"
#include "hwy/foreach_target.h"
//
#include "qkv/simd/attention/bf16-inl.h"
#include "qkv/simd/attention/panel-inl.h"
#include "qkv/simd/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {
namespace {

constexpr int kWidth = kBf16Width;
using Bf16Panel = Panel<float, kWidth / kLanes<float>>;

// The parts of the scratch.
struct Bf16Layout {
  Bf16Layout(int64_t rows, int64_t E, int64_t E_v)
      : panels((rows + kWidth - 1) / kWidth),
        padded_E(RoundUpToChunk(E)),
        q_size(padded_E * kWidth),
        out_size(RoundUpToChunk(E_v) * kWidth),
        out(panels * q_size),
        max(out + panels * out_size),
        sum(max + panels * kWidth),
        strip(sum + panels * kWidth),
        extra(strip + kBlockKeys * kWidth),
        keys(extra + kBlockKeys * kWidth),
        values(keys + kBlockKeys * padded_E / 2),
        columns(values + RoundUpToChunk(E_v) * kBlockKeys / 2),
        dummy(columns + RoundUpToChunk(E_v) * kLanes<float>),
        size(dummy + std::max(E_v, kBlockKeys)) {}
  int64_t panels, padded_E, q_size, out_size;
  int64_t out, max, sum, strip, extra, keys, values, columns, dummy, size;
};

HWY_INLINE void Rescale(float* out, int64_t E_v, const float* rescale) {
  const Tag<float> d;
  for (float* end = out + E_v * kWidth; out != end; out += kWidth) {
    for (int i = 0; i < kWidth; i += kLanes<float>) {
      hn::StoreU(hn::Mul(hn::LoadU(d, out + i), hn::LoadU(d, rescale + i)), d, out + i);
    }
  }
}

void Run(const AttentionTask<float>& task, const internal::TileKernel& kernel, float* scratch) {
  const Bf16Layout layout(task.rows, task.E, task.E_v);
  float* const strip = scratch + layout.strip;
  auto* const keys = reinterpret_cast<uint16_t*>(scratch + layout.keys);
  auto* const values = reinterpret_cast<uint16_t*>(scratch + layout.values);
  const auto panel_of = [&](int64_t p) {
    float *q = scratch + p * layout.q_size, *out = scratch + layout.out + p * layout.out_size;
    float *max = scratch + layout.max + p * kWidth, *sum = scratch + layout.sum + p * kWidth;
    return Bf16Panel{task, p * kWidth, q, out, max, sum, strip, scratch + layout.extra, scratch + layout.dummy};
  };
  std::fill_n(scratch + layout.max, layout.panels * kWidth, -kInfinity<float>);
  std::fill_n(scratch + layout.sum, layout.panels * kWidth, 0.0f);
  for (int64_t p = 0; p < layout.panels; ++p) {
    Bf16Panel panel = panel_of(p);
    panel.LoadQueries();
    if (task.sinks) panel.LoadSinks();
    std::fill(panel.q + task.E * kWidth, panel.q + layout.q_size, 0.0f);
    PackPairs(panel.q, layout.padded_E / 2, panel.q);
  }

  HWY_ALIGN float top[kWidth], rescale[kWidth];
  const KernelTiles elements(task.E_v, kernel);
  const int64_t blocks = std::max<int64_t>(1, (task.keys + kBlockKeys - 1) / kBlockKeys);
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t begin = block * task.keys / blocks, end = (block + 1) * task.keys / blocks;
    if (task.Visible(0, task.rows - 1).Skips(begin, end)) continue;
    const KernelTiles tiles(end - begin, kernel);
    PackRows({task.k + begin * task.k_stride, task.k_stride, end - begin, task.E}, tiles, layout.padded_E, keys);
    std::fill_n(scratch + layout.dummy, task.E_v, 0.0f);
    PackColumns({task.v + begin * task.v_stride, task.v_stride, end - begin, task.E_v}, elements,
                scratch + layout.columns, scratch + layout.dummy, values);
    for (int64_t p = 0; p < layout.panels; ++p) {
      Bf16Panel panel = panel_of(p);
      const VisibleKeys visible = panel.Visible();
      if (visible.Skips(begin, end)) continue;
      const bool first = visible.IsFirst(begin);
      const int64_t wanted = tiles.Covering(std::min(visible.end - begin, end - begin));
      const int64_t count = std::min(tiles.begin(wanted), end - begin), depth = RoundUpToChunk(count);
      MultiplyTiles(kernel, tiles, wanted, keys, layout.padded_E, panel.q, layout.padded_E, true, strip);
      panel.Adjust(begin, count, top);
      panel.Exponentials(count, top, rescale);
      if (task.dropout_below > 0) panel.Rules().Drop(begin, count);
      std::fill(strip + count * kWidth, strip + depth * kWidth, 0.0f);
      PackPairs(strip, depth / 2, strip);
      if (!first) Rescale(panel.out, task.E_v, rescale);
      MultiplyTiles(kernel, elements, elements.count, values, RoundUpToChunk(end - begin), strip, depth, first,
                    panel.out);
    }
  }
  for (int64_t p = 0; p < layout.panels; ++p) panel_of(p).StoreResults();
  if (kernel.finish) kernel.finish();
}

}  // namespace

void TileBf16(const AttentionTask<float>& task, const internal::TileKernel& kernel, float* scratch) {
  Run(task, kernel, scratch);
}
int64_t ScratchBf16(int64_t rows, int64_t E, int64_t E_v) { return Bf16Layout(rows, E, E_v).size; }

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::simd {

HWY_EXPORT(TileBf16);
HWY_EXPORT(ScratchBf16);

const internal::TileKernel* AttentionBf16Kernel() {
  const internal::TileKernel& kernel = internal::SelectTileKernel(Precision::kBfloat16);
  return Describe(Precision::kBfloat16).native && kernel.panel == kAttentionBf16Panel ? &kernel : nullptr;
}

int64_t AttentionBf16Scratch(int64_t rows, int64_t E, int64_t E_v) { return QKV_DISPATCH(ScratchBf16)(rows, E, E_v); }
void AttentionTileBf16(const AttentionTask<float>& task, const internal::TileKernel& kernel, float* scratch) {
  QKV_DISPATCH(TileBf16)(task, kernel, scratch);
}

}  // namespace qkv::simd
#endif  // HWY_ONCE
