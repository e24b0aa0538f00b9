// As attention_tile.cc, but the two products are a tile kernel's. It sums over pairs: of elements for the scores, of
// keys for the output, so values are transposed once for each block of keys, and weights packed in pairs of rows.
#include "qkv/simd/attention_bf16.h"

#include <algorithm>

#include "qkv/simd/gemm_low.h"
#include "qkv/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/simd/attention_bf16.cc"
#include "hwy/foreach_target.h"
//
#include "qkv/simd/attention_panel-inl.h"
#include "qkv/simd/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {
namespace {

constexpr int kWidth = static_cast<int>(kAttentionBf16Panel);
constexpr int kPairChunk = 32;  // elements of A in 64 bytes
using Bf16Panel = Panel<float, kWidth / kLanes<float>>;

HWY_INLINE int64_t RoundUp(int64_t n) { return (n + kPairChunk - 1) / kPairChunk * kPairChunk; }

// Rows of A cut as evenly as can be into tiles that the kernel takes. Where it takes whole AMX tiles, rows that are
// missing cost nothing, but another count of rows means another configuration: there all tiles are full.
struct KernelTiles {
  KernelTiles(int64_t total, const internal::TileKernel& kernel)
      : rows(kernel.rows % kPairChunk == 0 ? RoundUp(total) : total), count((rows + kernel.rows - 1) / kernel.rows) {}
  int64_t begin(int64_t tile) const { return count == 0 ? 0 : tile * rows / count; }
  int size(int64_t tile) const { return static_cast<int>(begin(tile + 1) - begin(tile)); }
  int64_t rows, count;
};

// Where the parts of the scratch lie.
struct Bf16Layout {
  Bf16Layout(int64_t rows, int64_t E, int64_t E_v)
      : panels((rows + kWidth - 1) / kWidth),
        padded_E(RoundUp(E)),
        q_size(padded_E * kWidth),
        out_size(RoundUp(E_v) * kWidth),
        out(panels * q_size),
        max(out + panels * out_size),
        sum(max + panels * kWidth),
        strip(sum + panels * kWidth),
        extra(strip + kBlockKeys * kWidth),
        keys(extra + kBlockKeys * kWidth),
        values(keys + kBlockKeys * padded_E / 2),
        columns(values + RoundUp(E_v) * kBlockKeys / 2),
        dummy(columns + RoundUp(E_v) * kLanes<float>),
        size(dummy + std::max(E_v, kBlockKeys)) {}
  int64_t panels, padded_E, q_size, out_size;
  int64_t out, max, sum, strip, extra, keys, values, columns, dummy, size;
};

// The nearest bfloat16, ties to even, in the upper half of each lane; NaN stays NaN. The lower half is of no meaning.
HWY_INLINE Vector<uint32_t> RoundToUpperHalf(Vector<float> x) {
  const Tag<uint32_t> d;
  const auto bits = hn::BitCast(d, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7FFF)));
  const auto is_number = hn::RebindMask(d, hn::Eq(x, x));
  return hn::IfThenElse(is_number, rounded, hn::Or(bits, hn::Set(d, 0x400000)));
}

HWY_INLINE void StoreBf16(Vector<float> x, uint16_t* to) {
  const hn::RebindToSigned<Tag<float>> di;
  const hn::Rebind<uint16_t, Tag<float>> d16;
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, hn::ShiftRight<16>(RoundToUpperHalf(x)))), d16, to);
}

// Rows of kWidth, in place, become pairs of rows: [pairs][kWidth][2] of bfloat16.
HWY_NOINLINE void PackPairs(float* rows, int64_t pairs) {
  const Tag<float> d;
  const auto upper = hn::Set(Tag<uint32_t>(), 0xFFFF0000u);
  float* to = rows;
  for (int64_t p = 0; p < pairs; ++p, rows += 2 * kWidth, to += kWidth) {
    for (int i = 0; i < kWidth; i += kLanes<float>) {
      const auto even = RoundToUpperHalf(hn::LoadU(d, rows + i));
      const auto odd = RoundToUpperHalf(hn::LoadU(d, rows + kWidth + i));
      hn::StoreU(hn::BitCast(d, hn::Or(hn::ShiftRight<16>(even), hn::And(odd, upper))), d, to + i);
    }
  }
}

// A block's keys as the kernel reads them: [padded_E / 32][rows of a tile][32], tile after tile. Past the last key
// stand zeros.
HWY_NOINLINE void PackKeys(const AttentionTask<float>& task, int64_t begin, int64_t end, const KernelTiles& tiles,
                           int64_t padded_E, uint16_t* to) {
  const Tag<float> d;
  for (int64_t t = 0; t < tiles.count; ++t) {
    const int64_t rows = tiles.size(t);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t j = begin + tiles.begin(t) + r;
      const float* key = task.k + j * task.k_stride;
      uint16_t* tile = to + tiles.begin(t) * padded_E + r * kPairChunk;
      for (int64_t e = 0; e < padded_E; e += kLanes<float>) {
        const int64_t left = j < end ? task.E - e : 0;
        const auto x = left >= kLanes<float> ? hn::LoadU(d, key + e)
                       : left > 0            ? LoadSome(d, key + e, static_cast<size_t>(left))
                                             : hn::Zero(d);
        StoreBf16(x, tile + e / kPairChunk * rows * kPairChunk + e % kPairChunk);
      }
    }
  }
}

// Its values, transposed: [keys / 32][rows of a tile][32], where a row is an element of all values. Past the last key
// and the last element stand zeros.
HWY_NOINLINE void PackValues(const AttentionTask<float>& task, int64_t begin, int64_t keys, const KernelTiles& tiles,
                             float* columns, const float* zeros, uint16_t* to) {
  const Tag<float> d;
  const int64_t padded = RoundUp(keys);
  std::fill(columns + task.E_v * kLanes<float>, columns + RoundUp(task.E_v) * kLanes<float>, 0.0f);
  for (int64_t j = 0; j < padded; j += kLanes<float>) {
    const float* rows[kLanes<float>];
    for (int64_t i = 0; i < kLanes<float>; ++i) {
      rows[i] = j + i < keys ? task.v + (begin + j + i) * task.v_stride : zeros;
    }
    TransposeIn(rows, task.E_v, 1.0f, columns, kLanes<float>);
    for (int64_t t = 0; t < tiles.count; ++t) {
      uint16_t* chunk = to + tiles.begin(t) * padded + j / kPairChunk * tiles.size(t) * kPairChunk + j % kPairChunk;
      for (int64_t e = tiles.begin(t); e < tiles.begin(t + 1); ++e, chunk += kPairChunk) {
        StoreBf16(hn::LoadU(d, columns + e * kLanes<float>), chunk);
      }
    }
  }
}

// c = a b, or += when not `first`, for all rows of A.
void Multiply(const internal::TileKernel& kernel, const KernelTiles& tiles, const uint16_t* a, int64_t a_depth,
              const float* b, int64_t depth, bool first, float* c) {
  for (int64_t t = 0; t < tiles.count; ++t) {
    kernel.multiply(tiles.size(t), a + tiles.begin(t) * a_depth, b, depth, first, c + tiles.begin(t) * kWidth, nullptr,
                    0);
  }
}

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
    std::fill(panel.q + task.E * kWidth, panel.q + layout.q_size, 0.0f);
    PackPairs(panel.q, layout.padded_E / 2);
  }

  HWY_ALIGN float top[kWidth], rescale[kWidth];
  const KernelTiles elements(task.E_v, kernel);
  const int64_t blocks = std::max<int64_t>(1, (task.keys + kBlockKeys - 1) / kBlockKeys);
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t begin = block * task.keys / blocks, end = (block + 1) * task.keys / blocks;
    if (begin > 0 && begin >= task.visible + task.rows - 1) break;
    const KernelTiles tiles(end - begin, kernel);
    PackKeys(task, begin, end, tiles, layout.padded_E, keys);
    std::fill_n(scratch + layout.dummy, task.E_v, 0.0f);
    PackValues(task, begin, end - begin, elements, scratch + layout.columns, scratch + layout.dummy, values);
    for (int64_t p = 0; p < layout.panels; ++p) {
      Bf16Panel panel = panel_of(p);
      const int64_t seen = std::min(panel.Visible() - begin, end - begin);
      if (seen <= 0 && begin > 0) continue;
      KernelTiles wanted = tiles;
      while (wanted.count > 0 && tiles.begin(wanted.count - 1) >= seen) --wanted.count;
      const int64_t count = std::min(tiles.begin(wanted.count), end - begin), depth = RoundUp(count);
      for (int64_t t = 0; t < wanted.count; ++t) {
        kernel.multiply(tiles.size(t), keys + tiles.begin(t) * layout.padded_E, panel.q, layout.padded_E, true,
                        strip + tiles.begin(t) * kWidth, nullptr, 0);
      }
      panel.Adjust(begin, count, top);
      panel.Exponentials(count, top, rescale);
      if (task.dropout_below > 0) panel.Rules().Drop(begin, count);
      std::fill(strip + count * kWidth, strip + depth * kWidth, 0.0f);
      PackPairs(strip, depth / 2);
      if (begin > 0) Rescale(panel.out, task.E_v, rescale);
      Multiply(kernel, elements, values, RoundUp(end - begin), strip, depth, begin == 0, panel.out);
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
  const internal::TileKernel& kernel = internal::KernelOf(Precision::kBfloat16);
  return Describe(Precision::kBfloat16).native && kernel.panel == kAttentionBf16Panel ? &kernel : nullptr;
}

int64_t AttentionBf16Scratch(int64_t rows, int64_t E, int64_t E_v) { return QKV_DISPATCH(ScratchBf16)(rows, E, E_v); }
void AttentionTileBf16(const AttentionTask<float>& task, const internal::TileKernel& kernel, float* scratch) {
  QKV_DISPATCH(TileBf16)(task, kernel, scratch);
}

}  // namespace qkv::simd
#endif  // HWY_ONCE
