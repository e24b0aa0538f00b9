// Low-precision tiles for machines without dot-product instructions.
#include <algorithm>
#include <cstring>

#include "qkv/simd/gemm/row_kernel.h"
#include "qkv/simd/gemm/tile_kernel.h"
#include "qkv/simd/gemm/tile_prefetch.h"
#include "qkv/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/simd/gemm/tile_generic.cc"
#include "hwy/foreach_target.h"
//
#include "qkv/simd/dispatch.h"
#include "qkv/simd/gemm/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {
namespace {

constexpr int kPanel = 2 * kLanes<float>;

constexpr int kFloatChunk = 16, kByteChunk = 64;

// One lane of b holds two k of a column, the even one in the lower half. A bfloat16 is the upper half of a float.
HWY_INLINE Vector<float> LoadEven(const uint32_t* b) {
  return hn::BitCast(Tag<float>(), hn::ShiftLeft<16>(hn::LoadU(Tag<uint32_t>(), b)));
}
HWY_INLINE Vector<float> LoadOdd(const uint32_t* b) {
  const Tag<uint32_t> d;
#if HWY_TARGET == HWY_SCALAR
  return hn::BitCast(Tag<float>(), hn::And(hn::LoadU(d, b), hn::Set(d, 0xFFFF0000u)));
#else
  // Blends with zero: no register is free for the mask of a bitwise and.
  const hn::Repartition<uint16_t, Tag<uint32_t>> d16;
  return hn::BitCast(Tag<float>(), hn::OddEven(hn::BitCast(d16, hn::LoadU(d, b)), hn::Zero(d16)));
#endif
}

template <int R>
HWY_NOINLINE void MultiplyTileWidened(const float* a, const uint32_t* b, int64_t depth, bool first, float* c,
                                      const char* next, int64_t lines) {
  const Tag<float> d;
  Accumulators<float, R, 2> acc;
  acc.Clear();
  const int64_t chunks = depth / kFloatChunk;
  internal::TilePrefetch prefetch({next, lines}, chunks);
  for (int64_t chunk = 0; chunk < chunks; ++chunk, a += R * kFloatChunk) {
    prefetch.PrefetchShare();
    for (int k = 0; k < kFloatChunk; k += 2, b += kPanel) {
      {
        const auto b0 = LoadEven(b), b1 = LoadEven(b + kLanes<float>);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) {
          const auto va = hn::Set(d, a[r * kFloatChunk + k]);
          acc.at[r][0] = hn::MulAdd(va, b0, acc.at[r][0]);
          acc.at[r][1] = hn::MulAdd(va, b1, acc.at[r][1]);
        }
      }
      const uint32_t* again = b;  // loaded again, as no register is free; the asm keeps GCC 12 from merging loads
      asm("" : "+r"(again));
      const auto b0 = LoadOdd(again), b1 = LoadOdd(again + kLanes<float>);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const auto va = hn::Set(d, a[r * kFloatChunk + k + 1]);
        acc.at[r][0] = hn::MulAdd(va, b0, acc.at[r][0]);
        acc.at[r][1] = hn::MulAdd(va, b1, acc.at[r][1]);
      }
    }
  }
  if (!first) acc.AddFrom(c, kPanel);
  acc.Store(c, kPanel);
}

// One row by N panels, `distance` elements of b apart.
template <int N>
HWY_NOINLINE void MultiplyPanelsWidened(const float* a, const uint32_t* b, int64_t distance, int64_t depth, bool first,
                                        float* c) {
  const Tag<float> d;
  Accumulators<float, N, 2> acc;
  acc.Clear();
  for (int64_t k = 0; k < depth; k += 2, b += kPanel) {
    const auto even = hn::Set(d, a[k]), odd = hn::Set(d, a[k + 1]);
#pragma GCC unroll 16
    for (int n = 0; n < N; ++n) {
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) {
        const uint32_t* const at = b + n * distance + v * kLanes<float>;
        acc.at[n][v] = hn::MulAdd(even, LoadEven(at), acc.at[n][v]);
        acc.at[n][v] = hn::MulAdd(odd, LoadOdd(at), acc.at[n][v]);
      }
    }
  }
  if (!first) acc.AddFrom(c, kPanel);
  acc.Store(c, kPanel);
}

void WidenedRow(int panels, const void* a, const void* b, int64_t distance, int64_t depth, bool first, void* c) {
  using Multiply = void (*)(const float*, const uint32_t*, int64_t, int64_t, bool, float*);
  static_assert(internal::kRowPanels == 4);
  static constexpr Multiply kOf[] = {MultiplyPanelsWidened<1>, MultiplyPanelsWidened<2>, MultiplyPanelsWidened<3>,
                                     MultiplyPanelsWidened<4>};
  kOf[panels - 1](static_cast<const float*>(a), static_cast<const uint32_t*>(b),
                  distance / static_cast<int64_t>(sizeof(uint32_t)), depth, first, static_cast<float*>(c));
}

void Widened(int rows, const void* a, const void* b, int64_t depth, bool first, void* c, const char* next,
             int64_t lines) {
  ForRows(rows, [&]<int R>() {
    MultiplyTileWidened<R>(static_cast<const float*>(a), static_cast<const uint32_t*>(b), depth, first,
                           static_cast<float*>(c), next, lines);
  });
}

#if HWY_TARGET == HWY_SCALAR

constexpr int kPairRows = 4;

template <int R>
void MultiplyTilePairs(const uint8_t* a, const int8_t* b, int64_t depth, bool first, int32_t* c, const char*, int64_t) {
  for (int r = 0; r < R; ++r) {
    for (int n = 0; n < kPanel; ++n) {
      int32_t sum = first ? 0 : c[r * kPanel + n];
      for (int64_t k = 0; k < depth; ++k) {
        sum += a[(k / kByteChunk * R + r) * kByteChunk + k % kByteChunk] * b[(k / 4 * kPanel + n) * 4 + k % 4];
      }
      c[r * kPanel + n] = sum;
    }
  }
}

#else

// Half the rows of a float tile if the sums of pairs take two registers (NEON; x86 never uses the second).
constexpr int kPairRows = HWY_TARGET == HWY_NEON ? kTileRows / 2 : std::max(1, kTileRows - 1);

// One lane holds four k. Its even bytes form one pair of int16, its odd bytes the other. The two products of a pair are
// below 2^16 and are summed in int32, so nothing saturates.
template <int R>
HWY_NOINLINE void MultiplyTilePairs(const uint8_t* a, const int8_t* b, int64_t depth, bool first, int32_t* c,
                                    const char* next, int64_t lines) {
  const Tag<int32_t> d;
  const hn::Repartition<int16_t, Tag<int32_t>> d16;
  const hn::Repartition<uint16_t, Tag<int32_t>> du16;
  const auto low_byte = hn::Set(du16, 0x00FF);
  hn::Vec<Tag<int32_t>> sum[R][2], other[R][2];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) sum[r][v] = other[r][v] = hn::Zero(d);
  }
  const int64_t chunks = depth / kByteChunk;
  internal::TilePrefetch prefetch({next, lines}, chunks);
  for (int64_t chunk = 0; chunk < chunks; ++chunk, a += R * kByteChunk) {
    prefetch.PrefetchShare();
    for (int k = 0; k < kByteChunk; k += 4, b += 4 * kPanel) {
      hn::Vec<decltype(d16)> even[2], odd[2];
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) {
        const auto both = hn::LoadU(d16, reinterpret_cast<const int16_t*>(b + 4 * v * kLanes<float>));
        even[v] = hn::ShiftRight<8>(hn::ShiftLeft<8>(both));
        odd[v] = hn::ShiftRight<8>(both);
      }
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        int32_t four;
        std::memcpy(&four, a + r * kByteChunk + k, sizeof(four));
        const auto both = hn::BitCast(du16, hn::Set(d, four));
        const auto a_even = hn::BitCast(d16, hn::And(both, low_byte));
        const auto a_odd = hn::BitCast(d16, hn::ShiftRight<8>(both));
#pragma GCC unroll 2
        for (int v = 0; v < 2; ++v) {
          sum[r][v] = hn::ReorderWidenMulAccumulate(d, a_even, even[v], sum[r][v], other[r][v]);
          sum[r][v] = hn::ReorderWidenMulAccumulate(d, a_odd, odd[v], sum[r][v], other[r][v]);
        }
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      int32_t* to = c + r * kPanel + v * kLanes<float>;
      auto total = hn::RearrangeToOddPlusEven(sum[r][v], other[r][v]);
      if (!first) total = hn::Add(total, hn::LoadU(d, to));
      hn::StoreU(total, d, to);
    }
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

void Pairs(int rows, const void* a, const void* b, int64_t depth, bool first, void* c, const char* next,
           int64_t lines) {
  ForRows(rows, [&]<int R>() {
    if constexpr (R <= kPairRows) {
      MultiplyTilePairs<R>(static_cast<const uint8_t*>(a), static_cast<const int8_t*>(b), depth, first,
                           static_cast<int32_t*>(c), next, lines);
    }
  });
}

}  // namespace

const internal::TileKernel* Bf16WidenedKernel() {
  static constexpr internal::TileKernel kernel{
      .name = "fp32", .panel = kPanel, .rows = kTileRows, .group = 2, .chunk = kFloatChunk, .multiply = Widened};
  return &kernel;
}
internal::RowMultiply Bf16WidenedRowKernel() { return WidenedRow; }
const internal::TileKernel* Int8PairsKernel() {
  static constexpr internal::TileKernel kernel{.name = "int16_pairs",
                                               .panel = kPanel,
                                               .rows = kPairRows,
                                               .group = 4,
                                               .chunk = kByteChunk,
                                               .activation_max = 255,
                                               .weight_max = 127,
                                               .multiply = Pairs};
  return &kernel;
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::simd {

HWY_EXPORT(Bf16WidenedKernel);
HWY_EXPORT(Bf16WidenedRowKernel);
HWY_EXPORT(Int8PairsKernel);

namespace internal {

const TileKernel& Bf16Widened() { return *QKV_DISPATCH(Bf16WidenedKernel)(); }
RowMultiply Bf16WidenedRow() { return QKV_DISPATCH(Bf16WidenedRowKernel)(); }
const TileKernel& Int8Pairs() { return *QKV_DISPATCH(Int8PairsKernel)(); }

}  // namespace internal
}  // namespace qkv::simd
#endif  // HWY_ONCE
