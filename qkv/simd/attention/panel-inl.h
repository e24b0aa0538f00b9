// Layout: scores are [key][query], a panel of one or two vectors of queries side by side. Keys and values are read in
// place with broadcast elements, and only the queries and the output are transposed; the softmax runs along keys,
// without horizontal steps. Keys are processed in blocks, so that a panel's strip of scores stays in the first-level
// cache; sums are rescaled from block to block (Milakov and Gimelshein 2018). Scores are multiplied by log2(e), so
// exponentials are powers of two.

#if defined(QKV_SIMD_ATTENTION_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_SIMD_ATTENTION_PANEL_INL_H_
#undef QKV_SIMD_ATTENTION_PANEL_INL_H_
#else
#define QKV_SIMD_ATTENTION_PANEL_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "qkv/simd/attention/rules-inl.h"
#include "qkv/simd/attention/tile.h"
#include "qkv/simd/gemm/tile-inl.h"
#include "qkv/simd/gemm/transpose-inl.h"
#include "qkv/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {

// The parts of the scratch. A panel of one vector leaves half of its part unused.
template <typename T>
struct Layout {
  Layout(int64_t rows, int64_t E, int64_t E_v)
      : panels((rows + kAttentionPanel<T> - 1) / kAttentionPanel<T>),
        padded_E((E + kChunk - 1) / kChunk * kChunk),
        q_size(E * kAttentionPanel<T>),
        out_size(E_v * kAttentionPanel<T>),
        out(panels * q_size),
        max(out + panels * out_size),
        sum(max + panels * kAttentionPanel<T>),
        strip(sum + panels * kAttentionPanel<T>),
        extra(strip + kBlockKeys * kAttentionPanel<T>),
        keys(extra + kBlockKeys * kAttentionPanel<T>),
        dummy(keys + kBlockKeys * padded_E),
        size(dummy + std::max(E_v, kBlockKeys)) {}
  int64_t panels, padded_E, q_size, out_size;
  int64_t out, max, sum, strip, extra, keys, dummy, size;
};

// Rows to prefetch, some with every tile of scores: those of the next block of keys or of the next task.
template <typename T>
struct RowPrefetch {
  struct Rows {
    const T* data = nullptr;
    int64_t stride = 0, count = 0, width = 0;
    int64_t share = 0;  // rows with each tile
  };
  Rows rows[4];

  void SetShares(int64_t tiles) {
    for (Rows& r : rows) r.share = tiles == 0 ? 0 : (r.count + tiles - 1) / tiles;
  }
  HWY_INLINE void PrefetchShare() {
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
  T* dummy;     // target of stores of lanes past the last row

  // The row of a lane; lanes past the end repeat the last one.
  int64_t LaneRow(int lane) const { return Rules().LaneRow(lane); }
  VisibleKeys Visible() const { return task.Visible(row, LaneRow(kWidth - 1)); }

  HWY_NOINLINE void LoadQueries() {
    const T factor = ScoreFactor(task);
    for (int v = 0; v < V; ++v) {
      const T* rows[kLanes<T>];
      for (int i = 0; i < kLanes<T>; ++i) rows[i] = task.q + LaneRow(v * kLanes<T> + i) * task.q_stride;
      TransposeIn(rows, task.E, factor, q + v * kLanes<T>, kWidth);
    }
  }

  // Maxima and sums before the first key: those of the sinks, if there are any.
  HWY_NOINLINE void LoadSinks() {
    for (int i = 0; i < kWidth; ++i) {
      max[i] = task.sinks[LaneRow(i) * task.sink_stride] * std::numbers::log2e_v<T>;
      sum[i] = max[i] == -kInfinity<T> ? T{0} : T{1};
    }
  }

  // strip[j] = k[j] · q for a block's keys from tile `from` on, in whole tiles until the block's first `count` are
  // covered; returns the number computed. `top` receives the greatest scores.
  HWY_NOINLINE int64_t Scores(const T* keys, int64_t padded_E, const AttentionTiles& tiles, int64_t from, int64_t count,
                              T* top, RowPrefetch<T>& ahead) {
    const Tag<T> d;
    for (int v = 0; v < V; ++v) hn::StoreU(hn::Set(d, -kInfinity<T>), d, top + v * kLanes<T>);
    const int64_t begin = tiles.begin(from);
    int64_t t = from;
    for (; t < tiles.count && tiles.begin(t) < count; ++t) {
      const T* a = keys + tiles.begin(t) * padded_E;
      T* c = strip + (tiles.begin(t) - begin) * kWidth;
      ahead.PrefetchShare();
      ForRows<kHalfTile>(tiles.size(t), [&]<int R>() HWY_ATTR {
        Accumulators<T, R, V> acc;
        acc.Clear();
        Prefetch nothing;
        MultiplyChunks<T, R, V>(acc, a, R * kChunk, q, task.E, nothing);
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
    return tiles.begin(t) - begin;
  }

  ScoreRules<T, V, kWidth> Rules() const { return {task, row, strip, extra}; }

  // Soft cap, bias, mask, causal limit and window on the strip from `key` on; `top` receives the new greatest scores.
  HWY_NOINLINE void Adjust(int64_t key, int64_t count, T* top) {
    const Tag<T> d;
    const auto rules = Rules();
    if (task.soft_cap != 0) rules.SoftCap(count);
    rules.BiasAndMasks(key, count);
    for (int v = 0; v < V; ++v) {
      auto greatest = hn::Set(d, -kInfinity<T>);
      for (int64_t j = 0; j < count; ++j) {
        greatest = hn::Max(hn::LoadU(d, strip + j * kWidth + v * kLanes<T>), greatest);
      }
      hn::StoreU(greatest, d, top + v * kLanes<T>);
    }
  }

  // strip = exp2(strip − max); updates sums and maxima. `rescale` receives the factor of the earlier sums.
  HWY_NOINLINE void Exponentials(int64_t count, const T* top, T* rescale) {
    const Tag<T> d;
    const auto infinity = hn::Set(d, kInfinity<T>);
    for (int v = 0; v < V; ++v) {
      const int at = v * kLanes<T>;
      const auto before = hn::LoadU(d, max + at);
      const auto now = hn::Max(hn::LoadU(d, top + at), before);
      // All scores so far are −inf: any finite number serves as the maximum.
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
      shared = hn::IfThenElse(hn::Eq(score, score), shared, score);  // NaN propagates
      hn::StoreU(hn::IfThenElse(lanes, shared, score), d, s);
    }
    const auto kept = hn::IfThenElse(hn::Eq(before, infinity), hn::Set(d, T{1}), hn::Zero(d));
    return hn::IfThenElse(lanes, kept, factor);
  }

  // out = out · rescale + Σ_j weight[j] v[j]
  HWY_NOINLINE void AddValues(int64_t key, int64_t count, bool first, const T* rescale) {
    const AttentionTiles tiles(task.E_v);
    for (int64_t t = 0; t < tiles.count; ++t) {
      const T* a = task.v + key * task.v_stride + tiles.begin(t);
      T* c = out + tiles.begin(t) * kWidth;
      ForRows<kHalfTile>(tiles.size(t), [&]<int R>() HWY_ATTR {
        Accumulators<T, R, V> acc;
        acc.Clear();
        const T* a_j = a;
        for (const T *b = strip, *end = strip + count * kWidth; b != end; b += kWidth, a_j += task.v_stride) {
          acc.template Step<1>(a_j, b);
        }
        // Added last, which limits a chain of additions to one block.
        if (!first) acc.AddScaledFrom(c, kWidth, rescale);
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
      for (int i = at; i < at + kLanes<T> && row + i < task.rows; ++i) {
        if (task.lse) task.lse[(row + i) * task.lse_stride] = max[i] * std::numbers::ln2_v<T> + std::log(sum[i]);
        if (task.max) task.max[row + i] = max[i], task.sum[row + i] = sum[i];
      }
    }
  }

  // Copies the raw scores of a block to their place among the weights.
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

  // Raw scores become weights; those of hidden keys, which may not have been computed, 0.
  HWY_NOINLINE void FinishWeights() {
    const Tag<T> d;
    const int64_t from = Visible().from, done = std::max(from, Visible().end);
    for (int i = 0; i < kWidth && row + i < task.rows; ++i) {
      T* w = task.out + (row + i) * task.out_stride;
      std::fill(w, w + from, T{0});
      std::fill(w + done, w + task.keys, T{0});
      const auto infinity = hn::Set(d, kInfinity<T>);
      const bool share = max[i] == kInfinity<T>;
      const auto shift = hn::Set(d, std::isinf(max[i]) ? T{0} : max[i]);
      const auto inverse = hn::Set(d, sum[i] == 0 ? T{0} : T{1} / sum[i]);
      for (int64_t j = from; j < done; j += kLanes<T>) {
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

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#endif  // QKV_SIMD_ATTENTION_PANEL_INL_H_
