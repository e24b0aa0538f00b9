// As backward.cc, but the five products use a tile kernel, which sums over pairs and needs 32 columns. So scores and
// gradients are stored as [key][query] in panels of 32 queries. The A of each product is either rounded once for a
// whole block of keys, or comes from the strips without transposition:
//   scores  S[key][query]  = K[key][e]      · qᵀ[e][query]
//   dP      [key][query]   = V[key][e]      · dOᵀ[e][query]
//   dQᵀ     [e][query]     = Kᵀ[e][key]     · dS[key][query]
//   dV      [key][e]      += P[key][query]  · dO[query][e]
//   dK      [key][e]      += dS[key][query] · Q[query][e]
// The first three products work on one panel, whose strips stay in L1; the last two work on all panels of a block.
#include <algorithm>
#include <utility>

#include "qkv/simd/attention/bf16.h"
#include "qkv/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/simd/attention/backward_bf16.cc"
#include "hwy/foreach_target.h"
//
#include "qkv/simd/attention/backward-inl.h"
#include "qkv/simd/attention/bf16-inl.h"
#include "qkv/simd/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {
namespace {

constexpr int kWidth = kBf16Width;
constexpr int64_t kPanels = 8;  // of a block of queries; with fewer, dk and dv are loaded and stored more often
constexpr int64_t kBlockRows = kPanels * kWidth;
constexpr int64_t kKeys = kAttentionGradientKeysBf16;
static_assert(kKeys <= kBlockKeys && kKeys % kPairChunk == 0 && kWidth == kPairChunk);

// The parts of the scratch. Sizes of bfloat16 are counted in floats.
struct Bf16GradientScratch {
  Bf16GradientScratch(int64_t E, int64_t E_v, float* scratch) : width(RoundUpToChunk(E)), width_v(RoundUpToChunk(E_v)) {
    float* next = scratch;
    const auto take = [&](int64_t count) { return std::exchange(next, next + count); };
    const auto take_bf16 = [&](int64_t count) { return reinterpret_cast<uint16_t*>(take(count / 2)); };
    k = take_bf16(kKeys * width), v = take_bf16(kKeys * width_v);
    k_columns = take_bf16(kKeys * width);
    dk = take(kKeys * width), dv = take(kKeys * width_v);
    weights = take(kKeys * kWidth), gradients = take(kKeys * kWidth);
    slopes = take(kKeys * kWidth), extra = take(kBlockKeys * kAttentionPanel<float>);
    weights_a = take_bf16(kKeys * kBlockRows), gradients_a = take_bf16(kKeys * kBlockRows);
    q_columns = take(kBlockRows * width / 2), dout_columns = take(kBlockRows * width_v / 2);
    q = take(kBlockRows * width / 2), dout = take(kBlockRows * width_v / 2);
    dq_columns = take(kWidth * width), dq = take(kWidth * width);
    const int64_t most = std::max(width, width_v);
    columns = take(most * kWidth), zeros = take(most);
    lse = take(kWidth), delta = take(kWidth);
    size = next - scratch;
  }

  int64_t width, width_v;             // E and E_v, padded
  uint16_t *k, *v;                    // by PackRows
  uint16_t* k_columns;                // by PackColumns
  float *dk, *dv;                     // [width / 32][kKeys][32]
  float *weights, *gradients;         // [kKeys][32]: S, then P; dP, then dS, then dS in pairs of keys
  float* slopes;                      // [kKeys][32]
  float* extra;                       // for ScoreRules
  uint16_t *weights_a, *gradients_a;  // per tile of keys [panels][keys][32]: P and dS
  float *q_columns, *dout_columns;    // [panels][width / 2][32][2]; q times the factor of the scores
  float *q, *dout;                    // [width / 32][rows / 2][32][2]
  float *dq_columns, *dq;             // [width][32], [32][width]
  float* columns;                     // [width][32]
  float* zeros;                       // [width]
  float *lse, *delta;                 // [32]; lse times log2(e)
  int64_t size;
};

// Pairs of bfloat16 [width][32] from 32 rows, transposed; missing rows are zeros.
HWY_NOINLINE void PackTransposed(const MatrixRows& m, int64_t padded, float factor, const Bf16GradientScratch& at,
                                 float* to) {
  for (int lane = 0; lane < kWidth; lane += kLanes<float>) {
    const float* rows[kLanes<float>];
    for (int64_t i = 0; i < kLanes<float>; ++i) {
      rows[i] = lane + i < m.rows ? m.data + (lane + i) * m.stride : at.zeros;
    }
    TransposeIn(rows, m.width, factor, at.columns + lane, kWidth);
  }
  std::fill(at.columns + m.width * kWidth, at.columns + padded * kWidth, 0.0f);
  PackPairs(at.columns, padded / 2, to);
}

// Rows as B, in pairs of rows: [padded / 32][kBlockRows / 2][32][2], rounded up to a multiple of 32.
HWY_NOINLINE void PackRowPairs(const MatrixRows& m, int64_t padded, const float* zeros, float* to) {
  const Tag<float> d;
  for (int64_t r = 0; r < RoundUpToChunk(m.rows); r += 2) {
    const float* even = r < m.rows ? m.data + r * m.stride : zeros;
    const float* odd = r + 1 < m.rows ? m.data + (r + 1) * m.stride : zeros;
    float* pair = to + r / 2 * kWidth;
    for (int64_t e = 0; e < padded; e += kLanes<float>) {
      hn::StoreU(Pairs(LoadOrZero(even, e, m.width), LoadOrZero(odd, e, m.width)), d,
                 pair + e / kWidth * (kBlockRows / 2 * kWidth) + e % kWidth);
    }
  }
}

// A block of queries of one head against a block of keys in the scratch.
struct Bf16GradientBlock {
  const AttentionGradientTask<float>& head;
  const GradientRelay& relay;
  const internal::TileKernel& kernel;
  const Bf16GradientScratch& at;
  const KernelTiles &tiles, &elements;  // of the keys, and of E
  int64_t key, keys;                    // the block's
  int64_t row, rows;                    // its queries
  bool writes;                          // dq; else adds to it

  int64_t Depth() const { return RoundUpToChunk(rows); }
  // Keys up to the last one visible to the block's first `rows` rows.
  int64_t Seen(int64_t first_rows) const {
    return std::clamp<int64_t>(head.Visible(row, row + first_rows - 1).end - key, 0, keys);
  }

  HWY_NOINLINE void Run() const {
    LoadRows();
    for (int64_t r = 0; r < rows; r += kWidth) RunPanel(r, std::min<int64_t>(kWidth, rows - r));
    relay.Signal();
    AddToKeys(at.weights_a, at.dout, at.width_v, at.dv);
    AddToKeys(at.gradients_a, at.q, at.width, at.dk);
  }

 private:
  void LoadRows() const {
    const MatrixRows q{head.q + row * head.q_stride, head.q_stride, rows, head.E};
    const MatrixRows dout{head.dout + row * head.dout_stride, head.dout_stride, rows, head.E_v};
    const float factor = ScoreFactor<float>(head);
    for (int64_t r = 0; r < rows; r += kWidth) {
      PackTransposed({q.data + r * q.stride, q.stride, rows - r, q.width}, at.width, factor, at,
                     at.q_columns + r * at.width / 2);
      PackTransposed({dout.data + r * dout.stride, dout.stride, rows - r, dout.width}, at.width_v, 1.0f, at,
                     at.dout_columns + r * at.width_v / 2);
    }
    PackRowPairs(q, at.width, at.zeros, at.q);
    PackRowPairs(dout, at.width_v, at.zeros, at.dout);
  }

  // Turns scores into gradients of scores for the panel from row `first` of the block on, and computes dq.
  void RunPanel(int64_t first, int64_t panel_rows) const {
    const int64_t wanted = tiles.Covering(Seen(first + panel_rows)), count = std::min(tiles.begin(wanted), keys);
    MultiplyTiles(kernel, tiles, wanted, at.k, at.width, at.q_columns + first * at.width / 2, at.width, true,
                  at.weights);
    MultiplyTiles(kernel, tiles, wanted, at.v, at.width_v, at.dout_columns + first * at.width_v / 2, at.width_v, true,
                  at.gradients);
    LoadStatistics(head, row + first, panel_rows, kWidth, at.lse, at.delta);
    GradientStrips<float, kWidth>{head,     at.weights, at.gradients, at.slopes,   at.extra,   at.lse,
                                  at.delta, key,        count,        row + first, panel_rows, kWidth}
        .Run();
    RoundStrip(at.weights, count, first, at.weights_a);
    RoundStrip(at.gradients, count, first, at.gradients_a);
    AddToQueries(first, panel_rows, count);
  }

  // Rounds a panel's strip to A of the products over queries; keys visible only to other panels become zeros.
  HWY_NOINLINE void RoundStrip(const float* strip, int64_t count, int64_t first, uint16_t* to) const {
    const Tag<float> d;
    const int64_t block_tiles = tiles.Covering(Seen(rows));
    for (int64_t t = 0; t < block_tiles; ++t) {
      uint16_t* chunk = to + tiles.begin(t) * Depth() + first * tiles.size(t);
      for (int64_t j = tiles.begin(t); j < tiles.begin(t + 1); ++j, chunk += kPairChunk) {
        for (int i = 0; i < kWidth; i += kLanes<float>) {
          StoreBf16(j < count ? hn::LoadU(d, strip + j * kWidth + i) : hn::Zero(d), chunk + i);
        }
      }
    }
  }

  // c[key] += Σ_query a[key][query] b[query]
  void AddToKeys(const uint16_t* a, const float* b, int64_t width, float* c) const {
    for (int64_t e = 0; e < width; e += kWidth) {
      MultiplyTiles(kernel, tiles, tiles.Covering(Seen(rows)), a, Depth(), b + e * kBlockRows / 2, Depth(), false,
                    c + e * kKeys);
    }
  }

  // dq[query] = Σ_key gradients[key][query] k[key], or +=.
  HWY_NOINLINE void AddToQueries(int64_t first, int64_t panel_rows, int64_t count) const {
    const int64_t depth = RoundUpToChunk(count);
    std::fill(at.gradients + count * kWidth, at.gradients + depth * kWidth, 0.0f);
    PackPairs(at.gradients, depth / 2, at.gradients);
    MultiplyTiles(kernel, elements, elements.count, at.k_columns, RoundUpToChunk(keys), at.gradients, depth, true,
                  at.dq_columns);
    for (int lane = 0; lane < kWidth; lane += kLanes<float>) {
      float* to[kLanes<float>];
      for (int64_t i = 0; i < kLanes<float>; ++i) to[i] = at.dq + (lane + i) * at.width;
      TransposeOut(at.dq_columns + lane, kWidth, head.E, to);
    }
    if (!writes) relay.Await();
    StoreRows(at.dq, at.width, panel_rows, head.E, !writes, head.dq + (row + first) * head.dq_stride, head.dq_stride);
  }
};

void StoreKeys(const float* from, int64_t keys, int64_t width, float* to, int64_t stride) {
  for (int64_t e = 0; e < width; e += kWidth, from += kKeys * kWidth) {
    StoreRows(from, kWidth, keys, std::min<int64_t>(kWidth, width - e), false, to + e, stride);
  }
}

void Run(std::span<const AttentionGradientTask<float>> heads, const AttentionGradientPart& part,
         const internal::TileKernel& kernel, float* scratch) {
  const AttentionGradientTask<float>& first = heads.front();
  const Bf16GradientScratch at(first.E, first.E_v, scratch);
  const KernelTiles elements(first.E, kernel);
  std::fill(at.zeros, at.lse, 0.0f);
  for (int64_t b = part.key_block_begin; b < part.key_block_end; ++b) {
    const int64_t key = AttentionGradientKey(b, first.keys, kKeys);
    const int64_t keys = AttentionGradientKey(b + 1, first.keys, kKeys) - key;
    const KernelTiles tiles(keys, kernel);
    const MatrixRows k{first.k + key * first.k_stride, first.k_stride, keys, first.E};
    PackRows(k, tiles, at.width, at.k);
    PackRows({first.v + key * first.v_stride, first.v_stride, keys, first.E_v}, tiles, at.width_v, at.v);
    PackColumns(k, elements, at.columns, at.zeros, at.k_columns);
    std::fill(at.dk, at.weights, 0.0f);
    GradientRelay relay(part, b);
    for (const AttentionGradientTask<float>& head : heads) {
      for (int64_t row = 0; row < head.rows; row += kBlockRows, relay.Step()) {
        const int64_t rows = std::min<int64_t>(kBlockRows, head.rows - row);
        const VisibleKeys visible = head.Visible(row, row + rows - 1);
        if (visible.Skips(key, key + keys)) continue;
        Bf16GradientBlock{head, relay, kernel, at, tiles, elements, key, keys, row, rows, visible.IsFirst(key)}.Run();
      }
    }
    StoreKeys(at.dk, keys, first.E, first.dk + key * first.dk_stride, first.dk_stride);
    StoreKeys(at.dv, keys, first.E_v, first.dv + key * first.dv_stride, first.dv_stride);
  }
  if (kernel.finish) kernel.finish();
}

}  // namespace

void GradientBf16(std::span<const AttentionGradientTask<float>> heads, const AttentionGradientPart& part,
                  const internal::TileKernel& kernel, float* scratch) {
  Run(heads, part, kernel, scratch);
}
int64_t GradientScratchBf16(int64_t E, int64_t E_v) { return Bf16GradientScratch(E, E_v, nullptr).size; }

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::simd {

HWY_EXPORT(GradientBf16);
HWY_EXPORT(GradientScratchBf16);

int64_t AttentionGradientBf16Scratch(int64_t E, int64_t E_v) { return QKV_DISPATCH(GradientScratchBf16)(E, E_v); }
void AttentionGradientBf16(std::span<const AttentionGradientTask<float>> heads, const AttentionGradientPart& part,
                           const internal::TileKernel& kernel, float* scratch) {
  QKV_DISPATCH(GradientBf16)(heads, part, kernel, scratch);
}

}  // namespace qkv::simd
#endif  // HWY_ONCE
