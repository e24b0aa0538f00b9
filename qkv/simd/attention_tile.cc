// The layout: scores stand as [key][query], a panel of one or two vectors of queries side by side. So the keys and the
// values are read as they lie, their elements broadcast, and only the queries and the output are transposed; the
// softmax runs down the lanes, without horizontal steps. Keys come in blocks, so that a panel's strip of scores stays
// in the first-level cache; from block to block the sums are rescaled (Milakov and Gimelshein 2018).
// Scores are kept times log2(e), exponentials are powers of two.
#include "qkv/simd/attention_tile.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "qkv/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/simd/attention_tile.cc"
#include "hwy/foreach_target.h"
//
#include "qkv/simd/dispatch.h"
#include "qkv/simd/math-inl.h"
#include "qkv/simd/tile-inl.h"
#include "qkv/simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {
namespace {

template <typename T>
inline constexpr int kPanel = 2 * kLanes<T>;
// A strip of this many keys by a panel is 32 KiB in AVX-512 and 16 KiB in AVX2.
constexpr int64_t kBlockKeys = 256;
template <typename T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();

// Where the parts of the scratch lie. A panel of one vector leaves half of its part unused.
template <typename T>
struct Layout {
  Layout(int64_t rows, int64_t E, int64_t E_v)
      : panels((rows + kPanel<T> - 1) / kPanel<T>),
        padded_E((E + kChunk - 1) / kChunk * kChunk),
        q_size(E * kPanel<T>),
        out_size(E_v * kPanel<T>),
        out(panels * q_size),
        max(out + panels * out_size),
        sum(max + panels * kPanel<T>),
        strip(sum + panels * kPanel<T>),
        extra(strip + kBlockKeys * kPanel<T>),
        keys(extra + kBlockKeys * kPanel<T>),
        dummy(keys + kBlockKeys * padded_E),
        size(dummy + std::max(E_v, kBlockKeys)) {}
  int64_t panels, padded_E, q_size, out_size;
  int64_t out, max, sum, strip, extra, keys, dummy, size;
};

// Rows to fetch into the cache, some with every tile of scores: what the next block of keys or the next task will read.
template <typename T>
struct Ahead {
  struct Rows {
    const T* data = nullptr;
    int64_t stride = 0, count = 0, width = 0;
    int64_t share = 0;  // rows with each tile
  };
  Rows rows[4];

  void SpreadOver(int64_t tiles) {
    for (Rows& r : rows) r.share = tiles == 0 ? 0 : (r.count + tiles - 1) / tiles;
  }
  HWY_INLINE void Some() {
    for (Rows& r : rows) {
      const int64_t share = std::min(r.share, r.count);
      for (int64_t i = 0; i < share; ++i, r.data += r.stride) {
        for (int64_t e = 0; e < r.width; e += kLine) __builtin_prefetch(r.data + e, 0, 2);
      }
      r.count -= share;
    }
  }
  static constexpr int64_t kLine = static_cast<int64_t>(kAlignment / sizeof(T));
};

// One panel of V vectors: its state, and the steps of one block of keys.
template <typename T, int V>
struct Panel {
  static constexpr int kWidth = V * kLanes<T>;

  const AttentionTask<T>& task;
  int64_t row;  // of the first query
  T* q;         // [E][kWidth], times the scale
  T* out;       // [E_v][kWidth], not yet divided by the sum
  T* max;       // [kWidth] of the scores so far
  T* sum;       // [kWidth] of exp(score − max)
  T* strip;     // [kBlockKeys][kWidth]: scores, then weights
  T* extra;     // [kBlockKeys][kWidth]: a bias or a mask, transposed
  T* dummy;     // takes what is written for lanes past the last row

  // The row behind a lane; lanes past the end repeat the last one.
  int64_t RowOf(int lane) const { return std::min(row + lane, task.rows - 1); }
  // Keys that the panel's last row sees.
  int64_t Visible() const { return std::min(task.keys, task.visible + RowOf(kWidth - 1)); }

  HWY_NOINLINE void LoadQueries() {
    const T factor = task.soft_cap == 0 ? task.scale * std::numbers::log2e_v<T> : task.scale / task.soft_cap;
    for (int v = 0; v < V; ++v) {
      const T* rows[kLanes<T>];
      for (int i = 0; i < kLanes<T>; ++i) rows[i] = task.q + RowOf(v * kLanes<T> + i) * task.q_stride;
      TransposeIn(rows, task.E, factor, q + v * kLanes<T>, kWidth);
    }
  }

  // strip[j] = k[j] · q for a block's keys, of which whole tiles are done until `count` are covered; returns how many
  // were. `top` gets the greatest scores.
  HWY_NOINLINE int64_t Scores(const T* keys, int64_t padded_E, const AttentionTiles& tiles, int64_t count, T* top,
                              Ahead<T>& ahead) {
    const Tag<T> d;
    for (int v = 0; v < V; ++v) hn::StoreU(hn::Set(d, -kInfinity<T>), d, top + v * kLanes<T>);
    int64_t t = 0;
    for (; t < tiles.count && tiles.begin(t) < count; ++t) {
      const T* a = keys + tiles.begin(t) * padded_E;
      T* c = strip + tiles.begin(t) * kWidth;
      ahead.Some();
      ForRows<kHalfTile>(tiles.size(t), [&]<int R>() HWY_ATTR {
        Accumulators<T, R, V> acc;
        acc.Clear();
        MultiplyChunks<T, R, V>(acc, a, q, task.E);
        acc.Store(c, kWidth);
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) {
          auto greatest = hn::LoadU(d, top + v * kLanes<T>);
#pragma GCC unroll 16
          for (int r = 0; r < R; ++r) greatest = hn::Max(acc.at[r][v], greatest);
          hn::StoreU(greatest, d, top + v * kLanes<T>);
        }
      });
    }
    return tiles.begin(t);
  }

  bool NeedsAdjusting(int64_t key, int64_t count) const {
    return task.soft_cap != 0 || task.bias || task.mask || key + count > task.visible + row;
  }

  // Soft cap, bias, mask and causal limit on the strip of keys key …; `top` gets the greatest scores anew.
  HWY_NOINLINE void Adjust(int64_t key, int64_t count, T* top) {
    const Tag<T> d;
    if (task.soft_cap != 0) SoftCap(count);
    if (task.bias) AddBias(key, count);
    if (task.mask) ApplyMask(key, count);
    if (key + count > task.visible + row) ApplyCausal(key, count);
    for (int v = 0; v < V; ++v) {
      auto greatest = hn::Set(d, -kInfinity<T>);
      for (int64_t j = 0; j < count; ++j) {
        greatest = hn::Max(hn::LoadU(d, strip + j * kWidth + v * kLanes<T>), greatest);
      }
      hn::StoreU(greatest, d, top + v * kLanes<T>);
    }
  }

  HWY_INLINE void SoftCap(int64_t count) {
    const Tag<T> d;
    const auto cap = hn::Set(d, task.soft_cap * std::numbers::log2e_v<T>);
    for (T* s = strip; s != strip + count * kWidth; s += kLanes<T>) {
      if constexpr (sizeof(T) == 4) {
        hn::StoreU(hn::Mul(cap, Tanh(d, hn::LoadU(d, s))), d, s);
      } else {
        for (int i = 0; i < kLanes<T>; ++i) s[i] = std::tanh(s[i]) * (task.soft_cap * std::numbers::log2e_v<T>);
      }
    }
  }

  HWY_INLINE void AddBias(int64_t key, int64_t count) {
    const Tag<T> d;
    const auto log2e = hn::Set(d, std::numbers::log2e_v<T>), low = hn::Set(d, -kInfinity<T>);
    const bool same_for_all = task.bias_stride == 0;
    if (!same_for_all) TransposeBias(key, count);
    for (int64_t j = 0; j < count; ++j) {
      for (int i = 0; i < kWidth; i += kLanes<T>) {
        T* s = strip + j * kWidth + i;
        const auto bias = same_for_all ? hn::Set(d, task.bias[(key + j) * task.bias_key_stride])
                                       : hn::LoadU(d, extra + j * kWidth + i);
        // A bias of −infinity hides the key, whatever the score: no ∞ − ∞.
        hn::StoreU(hn::IfThenElse(hn::Eq(bias, low), low, hn::MulAdd(bias, log2e, hn::LoadU(d, s))), d, s);
      }
    }
  }

  HWY_INLINE void TransposeBias(int64_t key, int64_t count) {
    for (int v = 0; v < V; ++v) {
      const T* rows[kLanes<T>];
      for (int i = 0; i < kLanes<T>; ++i) {
        rows[i] = task.bias + RowOf(v * kLanes<T> + i) * task.bias_stride + key * task.bias_key_stride;
      }
      T* to = extra + v * kLanes<T>;
      if (task.bias_key_stride == 1) {
        TransposeIn(rows, count, T{1}, to, kWidth);
        continue;
      }
      for (int64_t j = 0; j < count; ++j) {
        for (int i = 0; i < kLanes<T>; ++i) to[j * kWidth + i] = rows[i][j * task.bias_key_stride];
      }
    }
  }

  HWY_INLINE void ApplyMask(int64_t key, int64_t count) {
    const Tag<T> d;
    const auto low = hn::Set(d, -kInfinity<T>);
    if (task.mask_stride == 0) {
      for (int64_t j = 0; j < count; ++j) {
        if (task.mask[(key + j) * task.mask_key_stride]) continue;
        for (int i = 0; i < kWidth; i += kLanes<T>) hn::StoreU(low, d, strip + j * kWidth + i);
      }
      return;
    }
    for (int lane = 0; lane < kWidth; ++lane) {
      const bool* mask = task.mask + RowOf(lane) * task.mask_stride + key * task.mask_key_stride;
      T* to = extra + lane;
      for (int64_t j = 0; j < count; ++j) to[j * kWidth] = static_cast<T>(mask[j * task.mask_key_stride]);
    }
    const auto zero = hn::Zero(d);
    for (int64_t i = 0; i < count * kWidth; i += kLanes<T>) {
      const auto hidden = hn::Eq(hn::LoadU(d, extra + i), zero);
      hn::StoreU(hn::IfThenElse(hidden, low, hn::LoadU(d, strip + i)), d, strip + i);
    }
  }

  HWY_INLINE void ApplyCausal(int64_t key, int64_t count) {
    const Tag<T> d;
    const auto low = hn::Set(d, -kInfinity<T>);
    HWY_ALIGN T limits[kWidth];  // keys of this block that each lane sees; small numbers, exact in T
    for (int i = 0; i < kWidth; ++i) {
      limits[i] = static_cast<T>(std::clamp<int64_t>(task.visible + RowOf(i) - key, 0, count));
    }
    for (int64_t j = 0; j < count; ++j) {
      for (int i = 0; i < kWidth; i += kLanes<T>) {
        T* s = strip + j * kWidth + i;
        const auto seen = hn::Lt(hn::Set(d, static_cast<T>(j)), hn::Load(d, limits + i));
        hn::StoreU(hn::IfThenElse(seen, hn::LoadU(d, s), low), d, s);
      }
    }
  }

  // strip = exp2(strip − max), sums and maxima brought up to date; `rescale` gets the factor for what was summed
  // before.
  HWY_NOINLINE void Exponentials(int64_t count, const T* top, T* rescale) {
    const Tag<T> d;
    const auto infinity = hn::Set(d, kInfinity<T>);
    for (int v = 0; v < V; ++v) {
      const int at = v * kLanes<T>;
      const auto before = hn::LoadU(d, max + at);
      const auto now = hn::Max(hn::LoadU(d, top + at), before);
      // Nothing seen yet (−inf): any finite number serves as the maximum.
      const auto shift = hn::IfThenElse(hn::Eq(hn::Abs(now), infinity), hn::Zero(d), now);
      auto factor = Exp2Flushed(d, hn::Sub(before, shift));
      if (!hn::AllFalse(d, hn::Eq(now, infinity))) {
        factor = ShareInfinities(count, at, before, now, factor);
      }
      hn::StoreU(now, d, max + at);
      hn::StoreU(factor, d, rescale + at);

      auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
      T* s = strip + at;
      const auto step = [&](auto& partial, T* p) HWY_ATTR {
        const auto weight = Exp2Flushed(d, hn::Sub(hn::LoadU(d, p), shift));
        hn::StoreU(weight, d, p);
        partial = hn::Add(partial, weight);
      };
      int64_t j = 0;
      for (; j + 4 <= count; j += 4, s += 4 * kWidth) {
        step(sum0, s), step(sum1, s + kWidth), step(sum2, s + 2 * kWidth), step(sum3, s + 3 * kWidth);
      }
      for (; j < count; ++j, s += kWidth) step(sum0, s);
      const auto block = hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
      hn::StoreU(hn::MulAdd(hn::LoadU(d, sum + at), factor, block), d, sum + at);
    }
  }

  // Lanes whose maximum is +infinity: entries of +infinity become 0, all others −infinity. Returns the factor.
  HWY_NOINLINE Vector<T> ShareInfinities(int64_t count, int at, Vector<T> before, Vector<T> now, Vector<T> factor) {
    const Tag<T> d;
    const auto infinity = hn::Set(d, kInfinity<T>), low = hn::Set(d, -kInfinity<T>);
    const auto lanes = hn::Eq(now, infinity);
    for (int64_t j = 0; j < count; ++j) {
      T* s = strip + j * kWidth + at;
      const auto score = hn::LoadU(d, s);
      auto shared = hn::IfThenElse(hn::Eq(score, infinity), hn::Zero(d), low);
      shared = hn::IfThenElse(hn::Eq(score, score), shared, score);  // NaN spreads
      hn::StoreU(hn::IfThenElse(lanes, shared, score), d, s);
    }
    const auto kept = hn::IfThenElse(hn::Eq(before, infinity), hn::Set(d, T{1}), hn::Zero(d));
    return hn::IfThenElse(lanes, kept, factor);
  }

  // out = out · rescale + Σ_j weight[j] v[j]
  HWY_NOINLINE void AddValues(int64_t key, int64_t count, bool first, const T* rescale) {
    const Tag<T> d;
    const AttentionTiles tiles(task.E_v);
    for (int64_t t = 0; t < tiles.count; ++t) {
      const T* a = task.v + key * task.v_stride + tiles.begin(t);
      T* c = out + tiles.begin(t) * kWidth;
      ForRows<kHalfTile>(tiles.size(t), [&]<int R>() HWY_ATTR {
        Accumulators<T, R, V> acc;
        if (first) {
          acc.Clear();
        } else {
#pragma GCC unroll 16
          for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
            for (int v = 0; v < V; ++v) {
              acc.at[r][v] =
                  hn::Mul(hn::LoadU(d, c + r * kWidth + v * kLanes<T>), hn::LoadU(d, rescale + v * kLanes<T>));
            }
          }
        }
        const T* a_j = a;
        for (const T *b = strip, *end = strip + count * kWidth; b != end; b += kWidth, a_j += task.v_stride) {
          acc.template Step<1>(a_j, b);
        }
        acc.Store(c, kWidth);
      });
    }
  }

  HWY_NOINLINE void StoreResults() {
    const Tag<T> d;
    for (int v = 0; v < V; ++v) {
      const int at = v * kLanes<T>;
      T* rows[kLanes<T>];
      for (int i = 0; i < kLanes<T>; ++i) {
        rows[i] = row + at + i < task.rows ? task.out + (row + at + i) * task.out_stride : dummy;
      }
      const auto total = hn::LoadU(d, sum + at);
      const auto nothing = hn::Eq(total, hn::Zero(d));
      const auto inverse = hn::Div(hn::Set(d, T{1}), total);
      for (T* o = out + at; o != out + at + task.E_v * kWidth; o += kWidth) {
        hn::StoreU(hn::IfThenElse(nothing, hn::Zero(d), hn::Mul(hn::LoadU(d, o), inverse)), d, o);
      }
      TransposeOut(out + at, kWidth, task.E_v, rows);
      for (int i = 0; task.lse && i < kLanes<T> && row + at + i < task.rows; ++i) {
        task.lse[(row + at + i) * task.lse_stride] = max[at + i] * std::numbers::ln2_v<T> + std::log(sum[at + i]);
      }
    }
  }

  // The raw scores of a block, to their place among the weights.
  HWY_NOINLINE void StoreScores(int64_t key, int64_t count) {
    for (int v = 0; v < V; ++v) {
      const int at = v * kLanes<T>;
      T* rows[kLanes<T>];
      for (int i = 0; i < kLanes<T>; ++i) {
        rows[i] = row + at + i < task.rows ? task.out + (row + at + i) * task.out_stride + key : dummy;
      }
      TransposeOut(strip + at, kWidth, count, rows);
    }
  }

  // Raw scores become weights.
  HWY_NOINLINE void FinishWeights(int64_t done) {
    const Tag<T> d;
    for (int i = 0; i < kWidth && row + i < task.rows; ++i) {
      T* w = task.out + (row + i) * task.out_stride;
      std::fill(w + done, w + task.keys, T{0});
      const auto infinity = hn::Set(d, kInfinity<T>);
      const bool share = max[i] == kInfinity<T>;
      const auto shift = hn::Set(d, std::isinf(max[i]) ? T{0} : max[i]);
      const auto inverse = hn::Set(d, sum[i] == 0 ? T{0} : T{1} / sum[i]);
      for (int64_t j = 0; j < done; j += kLanes<T>) {
        const size_t n = static_cast<size_t>(std::min<int64_t>(kLanes<T>, done - j));
        auto score = LoadSome(d, w + j, n);
        if (share) {
          const auto shared = hn::IfThenElse(hn::Eq(score, infinity), hn::Zero(d), hn::Set(d, -kInfinity<T>));
          score = hn::IfThenElse(hn::Eq(score, score), shared, score);
        }
        StoreSome(d, hn::Mul(Exp2Flushed(d, hn::Sub(score, shift)), inverse), w + j, n);
      }
    }
  }
};

// Keys [begin, begin + count) as MultiplyChunks reads them: where they lie, when they lie so, or copied.
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

// f(panel) for the panels of a task; the last has one vector when that is enough.
template <typename T, class F>
HWY_INLINE void ForPanels(const AttentionTask<T>& task, const Layout<T>& layout, T* scratch, F f) {
  for (int64_t p = 0; p < layout.panels; ++p) {
    const int64_t row = p * kPanel<T>;
    T *q = scratch + p * layout.q_size, *out = scratch + layout.out + p * layout.out_size;
    T *max = scratch + layout.max + p * kPanel<T>, *sum = scratch + layout.sum + p * kPanel<T>;
    T *strip = scratch + layout.strip, *extra = scratch + layout.extra, *dummy = scratch + layout.dummy;
    if (task.rows - row > kLanes<T> || sizeof(T) == 8) {
      f(Panel<T, 2>{task, row, q, out, max, sum, strip, extra, dummy});
    } else if constexpr (sizeof(T) == 4) {  // double only has to be right
      f(Panel<T, 1>{task, row, q, out, max, sum, strip, extra, dummy});
    }
  }
}

// What is touched after a block: the next block, or the output and the first block of the next task.
template <bool kWeights, typename T>
HWY_INLINE Ahead<T> AfterBlock(const AttentionTask<T>& task, int64_t begin, int64_t end) {
  const int64_t keys = end - begin;
  Ahead<T> ahead;
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
  std::fill_n(scratch + layout.max, layout.panels * kPanel<T>, -kInfinity<T>);
  std::fill_n(scratch + layout.sum, layout.panels * kPanel<T>, T{0});
  ForPanels(task, layout, scratch, [](auto panel) HWY_ATTR { panel.LoadQueries(); });

  HWY_ALIGN T top[kPanel<T>], rescale[kPanel<T>];
  const int64_t blocks = std::max<int64_t>(1, (task.keys + kBlockKeys - 1) / kBlockKeys);
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t begin = block * task.keys / blocks, end = (block + 1) * task.keys / blocks;
    const AttentionTiles tiles(end - begin);
    const bool visible = begin < task.visible + task.rows - 1 || begin == 0;
    if (!visible) break;
    const T* keys = ArrangeKeys(task, begin, tiles, layout.padded_E, scratch + layout.keys);
    Ahead<T> ahead = AfterBlock<kWeights>(task, begin, end);
    ahead.SpreadOver(tiles.count * layout.panels);
    ForPanels(task, layout, scratch, [&](auto panel) HWY_ATTR {
      const int64_t seen = panel.Visible() - begin;
      if (seen <= 0 && begin > 0) return;
      const int64_t count = panel.Scores(keys, layout.padded_E, tiles, seen, top, ahead);
      if (panel.NeedsAdjusting(begin, count)) panel.Adjust(begin, count, top);
      if constexpr (kWeights) panel.StoreScores(begin, count);
      panel.Exponentials(count, top, rescale);
      if constexpr (!kWeights) panel.AddValues(begin, count, begin == 0, rescale);
    });
  }
  ForPanels(task, layout, scratch, [&](auto panel) HWY_ATTR {
    if constexpr (kWeights) {
      panel.FinishWeights(std::max<int64_t>(0, panel.Visible()));
    } else {
      panel.StoreResults();
    }
  });
}

}  // namespace

void AttentionTileFloat(const AttentionTask<float>& task, float* scratch) { Run<false>(task, scratch); }
void AttentionTileDouble(const AttentionTask<double>& task, double* scratch) { Run<false>(task, scratch); }
void AttentionWeightsFloat(const AttentionTask<float>& task, float* scratch) { Run<true>(task, scratch); }
void AttentionWeightsDouble(const AttentionTask<double>& task, double* scratch) { Run<true>(task, scratch); }
int64_t PanelFloat() { return kPanel<float>; }
int64_t PanelDouble() { return kPanel<double>; }
int64_t ScratchFloat(int64_t rows, int64_t E, int64_t E_v) { return Layout<float>(rows, E, E_v).size; }
int64_t ScratchDouble(int64_t rows, int64_t E, int64_t E_v) { return Layout<double>(rows, E, E_v).size; }

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::simd {

HWY_EXPORT(AttentionTileFloat);
HWY_EXPORT(AttentionTileDouble);
HWY_EXPORT(AttentionWeightsFloat);
HWY_EXPORT(AttentionWeightsDouble);
HWY_EXPORT(PanelFloat);
HWY_EXPORT(PanelDouble);
HWY_EXPORT(ScratchFloat);
HWY_EXPORT(ScratchDouble);

template <>
int64_t AttentionPanel<float>() {
  return QKV_DISPATCH(PanelFloat)();
}
template <>
int64_t AttentionPanel<double>() {
  return QKV_DISPATCH(PanelDouble)();
}
template <>
int64_t AttentionScratch<float>(int64_t rows, int64_t E, int64_t E_v) {
  return QKV_DISPATCH(ScratchFloat)(rows, E, E_v);
}
template <>
int64_t AttentionScratch<double>(int64_t rows, int64_t E, int64_t E_v) {
  return QKV_DISPATCH(ScratchDouble)(rows, E, E_v);
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
