// Attention of a block of queries: the outer loop runs over blocks of keys, the inner one over panels of queries. A
// panel skips blocks that none of its queries sees, so the blocks are the same for any division of the queries into
// tasks. The layout and the steps of a panel are in panel-inl.h.
#include "qkv/simd/attention/tile.h"

#include <algorithm>

#include "qkv/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/simd/attention/tile.cc"
#include "hwy/foreach_target.h"
//
#include "qkv/simd/attention/panel-inl.h"
#include "qkv/simd/attention/row-inl.h"
#include "qkv/simd/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {
namespace {

// Returns keys [begin, begin + count) in the layout of MultiplyChunks, in place if they already have it, else copied.
template <typename T>
HWY_INLINE const T* ArrangeKeys(const AttentionTask<T>& task, int64_t begin, const AttentionTiles& tiles,
                                int64_t padded_E, T* copy) {
  const T* keys = task.k + begin * task.k_stride;
  if (task.E == kChunk && task.k_stride == kChunk) return keys;
  for (int64_t t = 0; t < tiles.count; ++t) {
    CopyToChunks(keys + tiles.begin(t) * task.k_stride, task.k_stride, tiles.size(t), task.E,
                 copy + tiles.begin(t) * padded_E);
  }
  return copy;
}

// Calls f(panel) for the panels of a task; the last has one vector if that suffices.
template <typename T, class F>
HWY_INLINE void ForPanels(const AttentionTask<T>& task, const Layout<T>& layout, T* scratch, F f) {
  for (int64_t p = 0; p < layout.panels; ++p) {
    const int64_t row = p * kAttentionPanel<T>;
    T *q = scratch + p * layout.q_size, *out = scratch + layout.out + p * layout.out_size;
    T *max = scratch + layout.max + p * kAttentionPanel<T>, *sum = scratch + layout.sum + p * kAttentionPanel<T>;
    T *strip = scratch + layout.strip, *extra = scratch + layout.extra, *dummy = scratch + layout.dummy;
    if (task.rows - row > kLanes<T> || sizeof(T) == 8) {
      f(Panel<T, 2>{task, row, q, out, max, sum, strip, extra, dummy});
    } else if constexpr (sizeof(T) == 4) {  // double has no fast path
      f(Panel<T, 1>{task, row, q, out, max, sum, strip, extra, dummy});
    }
  }
}

// Memory to prefetch during a block: the next block, or the output and the first block of the next task.
template <bool kWeights, typename T>
HWY_INLINE RowPrefetch<T> NextRowPrefetch(const AttentionTask<T>& task, int64_t begin, int64_t end) {
  const int64_t keys = end - begin;
  RowPrefetch<T> ahead;
  if (end < task.keys) {
    ahead.rows[0] = {task.k + end * task.k_stride, task.k_stride, std::min(keys, task.keys - end), task.E};
    if (!kWeights) ahead.rows[1] = {task.v + end * task.v_stride, task.v_stride, ahead.rows[0].count, task.E_v};
    return ahead;
  }
  if (!kWeights) ahead.rows[3] = {task.out, task.out_stride, task.rows, task.E_v};
  if (task.next_q) {
    ahead.rows[0] = {task.next_k, task.k_stride, keys, task.E};
    if (!kWeights) ahead.rows[1] = {task.next_v, task.v_stride, keys, task.E_v};
    ahead.rows[2] = {task.next_q, task.q_stride, task.rows, task.E};
  }
  return ahead;
}

template <bool kWeights, typename T>
HWY_INLINE void Run(const AttentionTask<T>& task, T* scratch) {
  const Layout<T> layout(task.rows, task.E, kWeights ? 0 : task.E_v);
  std::fill_n(scratch + layout.max, layout.panels * kAttentionPanel<T>, -kInfinity<T>);
  std::fill_n(scratch + layout.sum, layout.panels * kAttentionPanel<T>, T{0});
  ForPanels(task, layout, scratch, [&](auto panel) HWY_ATTR {
    panel.LoadQueries();
    if (task.sinks) panel.LoadSinks();
  });

  HWY_ALIGN T top[kAttentionPanel<T>], rescale[kAttentionPanel<T>];
  const int64_t blocks = std::max<int64_t>(1, (task.keys + kBlockKeys - 1) / kBlockKeys);
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t begin = block * task.keys / blocks, end = (block + 1) * task.keys / blocks;
    const AttentionTiles tiles(end - begin);
    if (task.Visible(0, task.rows - 1).Skips(begin, end)) continue;
    const T* keys = ArrangeKeys(task, begin, tiles, layout.padded_E, scratch + layout.keys);
    RowPrefetch<T> ahead = NextRowPrefetch<kWeights>(task, begin, end);
    ahead.SetShares(tiles.count * layout.panels);
    ForPanels(task, layout, scratch, [&](auto panel) HWY_ATTR {
      const VisibleKeys visible = panel.Visible();
      if (visible.Skips(begin, end)) return;
      const bool first = visible.IsFirst(begin);
      int64_t tile = 0;
      while (tile < tiles.count && begin + tiles.begin(tile + 1) <= visible.from) ++tile;
      const int64_t key = begin + tiles.begin(tile);
      const int64_t count = panel.Scores(keys, layout.padded_E, tiles, tile, visible.end - begin, top, ahead);
      if (panel.Rules().Any(key, count)) panel.Adjust(key, count, top);
      if constexpr (kWeights) panel.StoreScores(key, count);
      panel.Exponentials(count, top, rescale);
      if (!kWeights && task.dropout_below > 0) panel.Rules().Drop(key, count);
      if constexpr (!kWeights) panel.AddValues(key, count, first, rescale);
    });
  }
  ForPanels(task, layout, scratch, [&](auto panel) HWY_ATTR {
    if constexpr (kWeights) {
      panel.FinishWeights();
    } else {
      panel.StoreResults();
    }
  });
}

// Uses the scratch layout of a task of one row.
template <typename T>
HWY_INLINE void RunRow(const AttentionTask<T>& task, T* scratch) {
  const Layout<T> layout(1, task.E, task.E_v);
  Row<T>{task, scratch, scratch + layout.out, scratch + layout.strip}.Run();
}

}  // namespace

void AttentionRowFloat(const AttentionTask<float>& task, float* scratch) { RunRow(task, scratch); }
void AttentionRowDouble(const AttentionTask<double>& task, double* scratch) { RunRow(task, scratch); }
void AttentionTileFloat(const AttentionTask<float>& task, float* scratch) { Run<false>(task, scratch); }
void AttentionTileDouble(const AttentionTask<double>& task, double* scratch) { Run<false>(task, scratch); }
void AttentionWeightsFloat(const AttentionTask<float>& task, float* scratch) { Run<true>(task, scratch); }
void AttentionWeightsDouble(const AttentionTask<double>& task, double* scratch) { Run<true>(task, scratch); }
int64_t AttentionPanelFloat() { return kAttentionPanel<float>; }
int64_t AttentionPanelDouble() { return kAttentionPanel<double>; }
int64_t AttentionScratchFloat(int64_t rows, int64_t E, int64_t E_v) { return Layout<float>(rows, E, E_v).size; }
int64_t AttentionScratchDouble(int64_t rows, int64_t E, int64_t E_v) { return Layout<double>(rows, E, E_v).size; }

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::simd {

HWY_EXPORT(AttentionRowFloat);
HWY_EXPORT(AttentionRowDouble);
HWY_EXPORT(AttentionTileFloat);
HWY_EXPORT(AttentionTileDouble);
HWY_EXPORT(AttentionWeightsFloat);
HWY_EXPORT(AttentionWeightsDouble);
HWY_EXPORT(AttentionPanelFloat);
HWY_EXPORT(AttentionPanelDouble);
HWY_EXPORT(AttentionScratchFloat);
HWY_EXPORT(AttentionScratchDouble);

template <>
int64_t AttentionPanel<float>() {
  return QKV_DISPATCH(AttentionPanelFloat)();
}
template <>
int64_t AttentionPanel<double>() {
  return QKV_DISPATCH(AttentionPanelDouble)();
}
template <>
int64_t AttentionScratch<float>(int64_t rows, int64_t E, int64_t E_v) {
  return QKV_DISPATCH(AttentionScratchFloat)(rows, E, E_v);
}
template <>
int64_t AttentionScratch<double>(int64_t rows, int64_t E, int64_t E_v) {
  return QKV_DISPATCH(AttentionScratchDouble)(rows, E, E_v);
}
template <>
void AttentionRow(const AttentionTask<float>& task, float* scratch) {
  QKV_DISPATCH(AttentionRowFloat)(task, scratch);
}
template <>
void AttentionRow(const AttentionTask<double>& task, double* scratch) {
  QKV_DISPATCH(AttentionRowDouble)(task, scratch);
}
template <>
void AttentionTile(const AttentionTask<float>& task, float* scratch) {
  QKV_DISPATCH(AttentionTileFloat)(task, scratch);
}
template <>
void AttentionTile(const AttentionTask<double>& task, double* scratch) {
  QKV_DISPATCH(AttentionTileDouble)(task, scratch);
}
template <>
void AttentionTileWeights(const AttentionTask<float>& task, float* scratch) {
  QKV_DISPATCH(AttentionWeightsFloat)(task, scratch);
}
template <>
void AttentionTileWeights(const AttentionTask<double>& task, double* scratch) {
  QKV_DISPATCH(AttentionWeightsDouble)(task, scratch);
}

}  // namespace qkv::simd
#endif  // HWY_ONCE
