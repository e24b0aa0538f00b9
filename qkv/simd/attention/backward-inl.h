// Layout: as in the forward pass scores are [key][query], here in blocks of 64 queries, so that all five products are
// register tiles of broadcast elements times dense vectors, and no strip is ever transposed:
//   scores  S[key][query]  = K[key][e]      · qᵀ[e][query]
//   dP      [key][query]   = V[key][e]      · dOᵀ[e][query]
//   dV      [key][e]      += P[key][query]  · dO[query][e]
//   dK      [key][e]      += dS[key][query] · Q[query][e]
//   dQ      [query][e]     = dS[key][query] · K[key][e], read down the columns of the strip
// where P = exp(S − lse), dS = P ∘ (dP − delta) · scale, delta = rowsum(dO ∘ O) (Dao et al. 2022, §B.4; Dao 2023).

#if defined(QKV_SIMD_ATTENTION_GRADIENT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_SIMD_ATTENTION_GRADIENT_INL_H_
#undef QKV_SIMD_ATTENTION_GRADIENT_INL_H_
#else
#define QKV_SIMD_ATTENTION_GRADIENT_INL_H_
#endif

#include <algorithm>
#include <cstring>
#include <numbers>

#include "qkv/core/progress.h"
#include "qkv/simd/attention/backward.h"
#include "qkv/simd/attention/rules-inl.h"
#include "qkv/simd/gemm/tile-inl.h"
#include "qkv/simd/gemm/transpose-inl.h"
#include "qkv/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {

inline constexpr int kGradientRows = static_cast<int>(kAttentionGradientRows);
inline constexpr int64_t kGradientKeys = kAttentionGradientKeys;
static_assert(kGradientRows % kAttentionPanel<float> == 0 && kHalfTile <= kGradientRows);

// Columns are processed in vectors. double serves checks only: it always takes two vectors at a time.
template <typename T>
inline constexpr int kVectorStep = sizeof(T) == 4 ? 1 : 2;
template <typename T>
HWY_INLINE int64_t PaddedWidth(int64_t width) {
  constexpr int64_t kStep = kVectorStep<T> * kLanes<T>;
  return (width + kStep - 1) / kStep * kStep;
}

// f.operator()<V>(column) for columns 0 … width, two vectors at a time; the last one alone if their number is odd.
template <typename T, class F>
HWY_INLINE void ForColumns(int64_t width, F&& f) {
  int64_t column = 0;
  for (; column + 2 * kLanes<T> <= width; column += 2 * kLanes<T>) f.template operator()<2>(column);
  if constexpr (kVectorStep<T> == 1) {
    if (column < width) f.template operator()<1>(column);
  }
}

// The parts of the scratch.
template <typename T>
struct GradientScratch {
  GradientScratch(int64_t E, int64_t E_v, T* scratch)
      : width(PaddedWidth<T>(E)),
        width_v(PaddedWidth<T>(E_v)),
        padded((E + kChunk - 1) / kChunk * kChunk),
        padded_v((E_v + kChunk - 1) / kChunk * kChunk) {
    T* next = scratch;
    const auto take = [&](int64_t count) { return std::exchange(next, next + count); };
    k = take(kGradientKeys * padded), v = take(kGradientKeys * padded_v);
    dk = take(kGradientKeys * width), dv = take(kGradientKeys * width_v);
    weights = take(kGradientKeys * kGradientRows), gradients = take(kGradientKeys * kGradientRows);
    slopes = take(kGradientKeys * kGradientRows), extra = take(kBlockKeys * kAttentionPanel<T>);
    q_columns = take(kGradientRows * width), dout_columns = take(kGradientRows * width_v);
    q = take(kGradientRows * width), dout = take(kGradientRows * width_v), dq = take(kGradientRows * width);
    lse = take(kGradientRows), delta = take(kGradientRows);
    size = next - scratch;
  }

  int64_t width, width_v, padded, padded_v;
  T *k, *v;                // [kGradientKeys][padded], in the chunks of MultiplyChunks
  T *dk, *dv;              // [kGradientKeys][width]
  T *weights, *gradients;  // [kGradientKeys][kGradientRows]: S, then P; dP, then dS
  T* slopes;               // [kGradientKeys][kGradientRows]: the soft cap's derivative
  T* extra;                // for ScoreRules
  T* q_columns;            // [kGradientRows / panel][E][panel], times the factor of the scores
  T* dout_columns;         // [kGradientRows / panel][E_v][panel]
  T *q, *dout, *dq;        // [kGradientRows][width]
  T *lse, *delta;          // [kGradientRows]; lse times log2(e)
  int64_t size;
};

// Copies rows into padded ones; the padding becomes 0.
template <typename T>
HWY_INLINE void CopyRows(const T* from, int64_t stride, int64_t rows, int64_t columns, T* to, int64_t width) {
  const size_t bytes = sizeof(T) * static_cast<size_t>(columns);
  for (int64_t r = 0; r < rows; ++r, from += stride, to += width) {
    std::memcpy(to, from, bytes);
    std::fill(to + columns, to + width, T{0});
  }
}

// to[r, 0 … columns) = from[r], or += if `add`.
template <typename T>
HWY_INLINE void StoreRows(const T* from, int64_t width, int64_t rows, int64_t columns, bool add, T* to,
                          int64_t stride) {
  const Tag<T> d;
  for (int64_t r = 0; r < rows; ++r, from += width, to += stride) {
    int64_t e = 0;
    for (; e + kLanes<T> <= columns; e += kLanes<T>) {
      const auto x = hn::LoadU(d, from + e);
      hn::StoreU(add ? hn::Add(hn::LoadU(d, to + e), x) : x, d, to + e);
    }
    for (; e < columns; ++e) to[e] = add ? to[e] + from[e] : from[e];
  }
}

// Strips of scores and of gradients, and the operations on them between the products.
template <typename T, int kWidth>
struct GradientStrips {
  const AttentionGradientTask<T>& head;
  T *weights, *gradients;  // [count][kWidth]: S, then P; dP, then dS
  T* slopes;               // [count][kWidth]: the soft cap's derivative
  T* extra;                // for ScoreRules
  const T *lse, *delta;    // [kWidth]
  int64_t key, count;
  int64_t row, rows;
  int columns;  // rows, rounded up

  // S and dP become the operands of the last three products.
  void Run() const {
    ApplyRules();
    Drop(gradients);
    Differentiate();
    Drop(weights);
    if (head.dbias || head.soft_cap != 0) FinishGradients();
  }

 private:
  HWY_NOINLINE void ApplyRules() const {
    ForColumns<T>(columns, [&]<int V>(int64_t column) HWY_ATTR {
      const ScoreRules<T, V, kWidth> rules{head, row + column, weights + column, extra};
      if (!rules.Any(key, count)) return;
      if (head.soft_cap != 0) {
        rules.SoftCap(count);
        StoreSlopes<V>(column);
      }
      rules.BiasAndMasks(key, count);
    });
  }

  // The derivative of a capped score: 1 − tanh².
  template <int V>
  HWY_INLINE void StoreSlopes(int64_t column) const {
    const Tag<T> d;
    const auto one = hn::Set(d, T{1}), inverse = hn::Set(d, T{1} / (head.soft_cap * std::numbers::log2e_v<T>));
    for (int64_t j = 0; j < count; ++j) {
      for (int v = 0; v < V; ++v) {
        const int64_t i = j * kWidth + column + v * kLanes<T>;
        const auto tanh = hn::Mul(hn::LoadU(d, weights + i), inverse);
        hn::StoreU(hn::NegMulAdd(tanh, tanh, one), d, slopes + i);
      }
    }
  }

  // Applies dropout to weights or to their gradients.
  HWY_NOINLINE void Drop(T* strip) const {
    if (head.dropout_below == 0) return;
    ForColumns<T>(columns, [&]<int V>(int64_t column) HWY_ATTR {
      ScoreRules<T, V, kWidth>{head, row + column, strip + column, extra}.Drop(key, count);
    });
  }

  // Scores become weights, gradients of the weights become gradients of the scores.
  HWY_NOINLINE void Differentiate() const {
    const Tag<T> d;
    const bool scale_later = head.dbias != nullptr || head.soft_cap != 0;
    const auto factor = hn::Set(d, scale_later ? T{1} : head.scale);
    for (int i = 0; i < columns; i += kLanes<T>) {
      const auto row_lse = hn::LoadU(d, lse + i), row_delta = hn::LoadU(d, delta + i);
      T *s = weights + i, *g = gradients + i;
      for (int64_t j = 0; j < count; ++j, s += kWidth, g += kWidth) {
        const auto weight = Exp2Flushed(d, hn::Sub(hn::LoadU(d, s), row_lse));
        const auto gradient = hn::Mul(weight, hn::Sub(hn::LoadU(d, g), row_delta));
        hn::StoreU(weight, d, s);
        hn::StoreU(hn::Mul(gradient, factor), d, g);
      }
    }
  }

  // The remaining steps of Differentiate: the bias's gradient comes before the slope of the soft cap and the scale.
  HWY_NOINLINE void FinishGradients() const {
    const Tag<T> d;
    if (head.dbias) AddBiasGradient();
    const auto scale = hn::Set(d, head.scale);
    for (int64_t j = 0; j < count; ++j) {
      for (int i = 0; i < columns; i += kLanes<T>) {
        T* g = gradients + j * kWidth + i;
        auto factor = scale;
        if (head.soft_cap != 0) factor = hn::Mul(scale, hn::LoadU(d, slopes + j * kWidth + i));
        hn::StoreU(hn::Mul(hn::LoadU(d, g), factor), d, g);
      }
    }
  }

  HWY_NOINLINE void AddBiasGradient() const {
    for (int64_t i = 0; i < rows; ++i) {
      T* to = head.dbias + (row + i) * head.dbias_stride + key * head.dbias_key_stride;
      const T* g = gradients + i;
      for (int64_t j = 0; j < count; ++j) to[j * head.dbias_key_stride] += g[j * kWidth];
    }
  }
};

// The statistics of `width` rows from `row` on, of which `rows` exist. The others, and fully masked rows, get weights
// of 0 for any scores.
template <typename T>
HWY_INLINE void LoadStatistics(const AttentionGradientTask<T>& head, int64_t row, int64_t rows, int64_t width, T* lse,
                               T* delta) {
  for (int64_t r = 0; r < width; ++r) {
    const T value = r < rows ? head.lse[(row + r) * head.lse_stride] : -kInfinity<T>;
    lse[r] = value == -kInfinity<T> ? kInfinity<T> : value * std::numbers::log2e_v<T>;
    delta[r] = r < rows ? head.delta[row + r] : T{0};
  }
}

// The order in which blocks of keys add to dq. A block of queries skips those without visible keys; the others are
// adjacent (VisibleKeys). The first of them writes dq without waiting. Each later one follows one that is not skipped
// either, and has waited for all before it. A skipped block reports at once: it lies before the first one, which does
// not wait, or after the last one.
class GradientRelay {
 public:
  GradientRelay(const AttentionGradientPart& part, int64_t key_block)
      : own_(part.progress ? part.progress + key_block : nullptr),
        before_(own_ && key_block > 0 ? own_ - 1 : nullptr) {}

  // Waits until the preceding block of keys has added to the current block of queries.
  void Await() const {
    if (before_) AwaitProgress(*before_, step_ + 1);
  }
  // Reports that this block has added, or will not add.
  void Signal() const {
    if (own_) ReportProgress(*own_, step_ + 1);
  }
  // Advances to the next block of queries.
  void Step() {
    Signal();
    ++step_;
  }

 private:
  int64_t *own_, *before_;
  int64_t step_ = 0;
};

// A block of queries of one head against a block of keys in the scratch.
template <typename T>
struct GradientBlock {
  const AttentionGradientTask<T>& head;
  const GradientScratch<T>& at;
  const AttentionTiles& tiles;  // of the block's keys
  int64_t key;                  // the block's first
  int64_t row, rows;            // its queries
  int64_t count;                // keys up to the last one visible to any of its queries, in whole tiles
  bool writes;                  // dq; else adds to it

  GradientStrips<T, kGradientRows> Strips() const {
    return {head,     at.weights, at.gradients, at.slopes, at.extra, at.lse,
            at.delta, key,        count,        row,       rows,     static_cast<int>(PaddedWidth<T>(rows))};
  }

  HWY_NOINLINE void LoadRows() const {
    CopyRows(head.q + row * head.q_stride, head.q_stride, rows, head.E, at.q, at.width);
    CopyRows(head.dout + row * head.dout_stride, head.dout_stride, rows, head.E_v, at.dout, at.width_v);
    const T factor = ScoreFactor<T>(head);
    ForColumns<T>(PaddedWidth<T>(rows), [&]<int V>(int64_t column) HWY_ATTR {
      for (int v = 0; v < V; ++v) {
        const T *q_rows[kLanes<T>], *dout_rows[kLanes<T>];
        for (int i = 0; i < kLanes<T>; ++i) {
          const int64_t r = std::min<int64_t>(column + v * kLanes<T> + i, rows - 1);
          q_rows[i] = at.q + r * at.width, dout_rows[i] = at.dout + r * at.width_v;
        }
        TransposeIn(q_rows, head.E, factor, at.q_columns + column * head.E + v * kLanes<T>, V * kLanes<T>);
        TransposeIn(dout_rows, head.E_v, T{1}, at.dout_columns + column * head.E_v + v * kLanes<T>, V * kLanes<T>);
      }
    });
    LoadStatistics(head, row, rows, kGradientRows, at.lse, at.delta);
  }

  // strip[key][query] = a[key] · b[query]; a in chunks, b as columns.
  HWY_NOINLINE void KeysByQueries(const T* a, int64_t padded, const T* b, int64_t depth, T* strip) const {
    ForColumns<T>(PaddedWidth<T>(rows), [&]<int V>(int64_t column) HWY_ATTR {
      for (int64_t t = 0; tiles.begin(t) < count; ++t) {
        ForRows<kHalfTile>(tiles.size(t), [&]<int R>() HWY_ATTR {
          Accumulators<T, R, V> acc;
          acc.Clear();
          Prefetch nothing;
          MultiplyChunks<T, R, V>(acc, a + tiles.begin(t) * padded, R * kChunk, b + column * depth, depth, nothing);
          acc.Store(strip + tiles.begin(t) * kGradientRows + column, kGradientRows);
        });
      }
    });
  }

  // c[key] += Σ_query strip[key][query] b[query]
  HWY_NOINLINE void AddToKeys(const T* strip, const T* b, int64_t width, T* c) const {
    ForColumns<T>(width, [&]<int V>(int64_t column) HWY_ATTR {
      for (int64_t t = 0; tiles.begin(t) < count; ++t) {
        ForRows<kHalfTile>(tiles.size(t), [&]<int R>() HWY_ATTR {
          Accumulators<T, R, V> acc;
          acc.Clear();
          const T* b_i = b + column;
          for (const T *a = strip + tiles.begin(t) * kGradientRows, *end = a + rows; a != end; ++a, b_i += width) {
            acc.template Step<kGradientRows>(a, b_i);
          }
          // Added last, which limits a chain of additions to one block.
          T* to = c + tiles.begin(t) * width + column;
          acc.AddFrom(to, width);
          acc.Store(to, width);
        });
      }
    });
  }

  // dq[query] = Σ_key gradients[key][query] k[key]. An incomplete tile is filled with rows of the strip.
  HWY_NOINLINE void QueriesByKeys() const {
    const RowTiles queries(std::max<int64_t>(rows, kHalfTile));
    ForColumns<T>(at.width, [&]<int V>(int64_t column) HWY_ATTR {
      for (int64_t q_tile = 0; q_tile < queries.count; ++q_tile) {
        ForRows<kHalfTile>(queries.size(q_tile), [&]<int R>() HWY_ATTR {
          Accumulators<T, R, V> acc;
          acc.Clear();
          const T* a = at.gradients + queries.begin(q_tile);
          for (int64_t t = 0; tiles.begin(t) < count; ++t) {
            const T* b = at.k + tiles.begin(t) * at.padded + column / kChunk * kChunk * tiles.size(t) + column % kChunk;
            for (const T* end = a + tiles.size(t) * kGradientRows; a != end; a += kGradientRows, b += kChunk) {
              acc.template Step<1>(a, b);
            }
          }
          acc.Store(at.dq + queries.begin(q_tile) * at.width + column, at.width);
        });
      }
    });
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#endif  // QKV_SIMD_ATTENTION_GRADIENT_INL_H_
