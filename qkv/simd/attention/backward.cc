// The gradient of attention: blocks of keys outside, blocks of queries inside. The layout and the products are in
// backward-inl.h.
#include "qkv/simd/attention/backward.h"

#include <algorithm>
#include <utility>

#include "qkv/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/simd/attention/backward.cc"
#include "hwy/foreach_target.h"
//
#include "qkv/simd/attention/backward-inl.h"
#include "qkv/simd/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {
namespace {

template <typename T>
HWY_INLINE void LoadKeys(const AttentionGradientTask<T>& head, int64_t key, const AttentionTiles& tiles,
                         const GradientScratch<T>& at) {
  for (int64_t t = 0; t < tiles.count; ++t) {
    const int64_t j = key + tiles.begin(t);
    CopyToChunks(head.k + j * head.k_stride, head.k_stride, tiles.size(t), head.E, at.k + tiles.begin(t) * at.padded);
    CopyToChunks(head.v + j * head.v_stride, head.v_stride, tiles.size(t), head.E_v,
                 at.v + tiles.begin(t) * at.padded_v);
  }
}

template <typename T>
HWY_INLINE void RunBlock(const GradientBlock<T>& block, const GradientRelay& relay) {
  const AttentionGradientTask<T>& head = block.head;
  const GradientScratch<T>& at = block.at;
  block.LoadRows();
  block.KeysByQueries(at.k, at.padded, at.q_columns, head.E, at.weights);
  block.KeysByQueries(at.v, at.padded_v, at.dout_columns, head.E_v, at.gradients);
  block.Strips().Run();
  block.QueriesByKeys();
  if (!block.writes) relay.Await();
  StoreRows(at.dq, at.width, block.rows, head.E, !block.writes, head.dq + block.row * head.dq_stride, head.dq_stride);
  relay.Signal();
  block.AddToKeys(at.weights, at.dout, at.width_v, at.dv);
  block.AddToKeys(at.gradients, at.q, at.width, at.dk);
}

template <typename T>
HWY_INLINE void Run(std::span<const AttentionGradientTask<T>> heads, const AttentionGradientPart& part, T* scratch) {
  const AttentionGradientTask<T>& first = heads.front();
  const GradientScratch<T> at(first.E, first.E_v, scratch);
  // Chunks are wider than the copied columns; the excess is multiplied too, and discarded.
  if (first.E % kChunk != 0 || first.E_v % kChunk != 0) std::fill(at.k, at.dk, T{0});
  for (int64_t b = part.key_block_begin; b < part.key_block_end; ++b) {
    const int64_t key = AttentionGradientKey(b, first.keys, kGradientKeys);
    const int64_t key_end = AttentionGradientKey(b + 1, first.keys, kGradientKeys);
    const AttentionTiles tiles(key_end - key);
    LoadKeys(first, key, tiles, at);
    std::fill(at.dk, at.weights, T{0});
    GradientRelay relay(part, b);
    for (const AttentionGradientTask<T>& head : heads) {
      for (int64_t row = 0; row < head.rows; row += kGradientRows, relay.Step()) {
        const int64_t rows = std::min<int64_t>(kGradientRows, head.rows - row);
        const VisibleKeys visible = head.Visible(row, row + rows - 1);
        if (visible.Skips(key, key_end)) continue;
        int64_t t = 0;
        while (tiles.begin(t) < std::min(visible.end - key, tiles.rows)) ++t;
        RunBlock<T>({head, at, tiles, key, row, rows, tiles.begin(t), visible.IsFirst(key)}, relay);
      }
    }
    StoreRows(at.dk, at.width, tiles.rows, first.E, false, first.dk + key * first.dk_stride, first.dk_stride);
    StoreRows(at.dv, at.width_v, tiles.rows, first.E_v, false, first.dv + key * first.dv_stride, first.dv_stride);
  }
}

template <typename T>
HWY_INLINE void Delta(const T* out, int64_t out_stride, const T* dout, int64_t dout_stride, int64_t rows, int64_t E_v,
                      T* delta) {
  const Tag<T> d;
  for (int64_t i = 0; i < rows; ++i, out += out_stride, dout += dout_stride) {
    auto sum = hn::Zero(d);
    int64_t e = 0;
    for (; e + kLanes<T> <= E_v; e += kLanes<T>) {
      sum = hn::MulAdd(hn::LoadU(d, out + e), hn::LoadU(d, dout + e), sum);
    }
    T rest = 0;
    for (; e < E_v; ++e) rest += out[e] * dout[e];
    delta[i] = hn::GetLane(hn::SumOfLanes(d, sum)) + rest;
  }
}

}  // namespace

void GradientFloat(std::span<const AttentionGradientTask<float>> heads, const AttentionGradientPart& part,
                   float* scratch) {
  Run(heads, part, scratch);
}
void GradientDouble(std::span<const AttentionGradientTask<double>> heads, const AttentionGradientPart& part,
                    double* scratch) {
  Run(heads, part, scratch);
}
int64_t GradientScratchFloat(int64_t E, int64_t E_v) { return GradientScratch<float>(E, E_v, nullptr).size; }
int64_t GradientScratchDouble(int64_t E, int64_t E_v) { return GradientScratch<double>(E, E_v, nullptr).size; }
void DeltaFloat(const float* out, int64_t out_stride, const float* dout, int64_t dout_stride, int64_t rows, int64_t E_v,
                float* delta) {
  Delta(out, out_stride, dout, dout_stride, rows, E_v, delta);
}
void DeltaDouble(const double* out, int64_t out_stride, const double* dout, int64_t dout_stride, int64_t rows,
                 int64_t E_v, double* delta) {
  Delta(out, out_stride, dout, dout_stride, rows, E_v, delta);
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::simd {

HWY_EXPORT(GradientFloat);
HWY_EXPORT(GradientDouble);
HWY_EXPORT(GradientScratchFloat);
HWY_EXPORT(GradientScratchDouble);
HWY_EXPORT(DeltaFloat);
HWY_EXPORT(DeltaDouble);

template <>
int64_t AttentionGradientScratch<float>(int64_t E, int64_t E_v) {
  return QKV_DISPATCH(GradientScratchFloat)(E, E_v);
}
template <>
int64_t AttentionGradientScratch<double>(int64_t E, int64_t E_v) {
  return QKV_DISPATCH(GradientScratchDouble)(E, E_v);
}
template <>
void AttentionGradient(std::span<const AttentionGradientTask<float>> heads, const AttentionGradientPart& part,
                       float* scratch) {
  QKV_DISPATCH(GradientFloat)(heads, part, scratch);
}
template <>
void AttentionGradient(std::span<const AttentionGradientTask<double>> heads, const AttentionGradientPart& part,
                       double* scratch) {
  QKV_DISPATCH(GradientDouble)(heads, part, scratch);
}
template <>
void AttentionDelta(const float* out, int64_t out_stride, const float* dout, int64_t dout_stride, int64_t rows,
                    int64_t E_v, float* delta) {
  QKV_DISPATCH(DeltaFloat)(out, out_stride, dout, dout_stride, rows, E_v, delta);
}
template <>
void AttentionDelta(const double* out, int64_t out_stride, const double* dout, int64_t dout_stride, int64_t rows,
                    int64_t E_v, double* delta) {
  QKV_DISPATCH(DeltaDouble)(out, out_stride, dout, dout_stride, rows, E_v, delta);
}

}  // namespace qkv::simd
#endif  // HWY_ONCE
