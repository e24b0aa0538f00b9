// Attention of one query, as in decoding. No queries share a vector, so vectors run along E, and reading keys and
// values limits the speed. Blocks of keys are those of panel-inl.h.

#if defined(QKV_SIMD_ATTENTION_ROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_SIMD_ATTENTION_ROW_INL_H_
#undef QKV_SIMD_ATTENTION_ROW_INL_H_
#else
#define QKV_SIMD_ATTENTION_ROW_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <numbers>

#include "qkv/simd/attention/rules-inl.h"
#include "qkv/simd/attention/tile.h"
#include "qkv/simd/gemm/tile-inl.h"
#include "qkv/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {

template <typename T>
struct Row {
  const AttentionTask<T>& task;
  T* q;      // [E], times the scale
  T* out;    // [E_v], not yet divided by the sum
  T* strip;  // [kBlockKeys]: scores, then weights; −infinity past the last key

  // Elements [e, e + lanes) of a row, which may end earlier.
  static HWY_INLINE Vector<T> LoadPart(const T* row, int64_t e, int64_t width) {
    const Tag<T> d;
    return e + kLanes<T> <= width ? hn::LoadU(d, row + e) : LoadSome(d, row + e, static_cast<size_t>(width - e));
  }

  // strip[j] = q · key[j] for a block's keys, four at a time; a remainder repeats the last keys.
  HWY_NOINLINE void Scores(int64_t key, int64_t count) const {
    const Tag<T> d;
    constexpr int kKeys = 4;
    for (int64_t j = 0; j < count; j += kKeys) {
      const T* rows[kKeys];
      Vector<T> sum[kKeys];
#pragma GCC unroll 4
      for (int i = 0; i < kKeys; ++i) {
        rows[i] = task.k + (key + std::min(j + i, count - 1)) * task.k_stride;
        sum[i] = hn::Zero(d);
      }
      for (int64_t e = 0; e < task.E; e += kLanes<T>) {
        const auto part = LoadPart(q, e, task.E);
#pragma GCC unroll 4
        for (int i = 0; i < kKeys; ++i) sum[i] = hn::MulAdd(part, LoadPart(rows[i], e, task.E), sum[i]);
      }
#pragma GCC unroll 4
      for (int i = 0; i < kKeys; ++i) strip[j + i] = hn::GetLane(hn::SumOfLanes(d, sum[i]));
    }
    std::fill(strip + count, strip + PaddedKeys(count), -kInfinity<T>);
  }
  static int64_t PaddedKeys(int64_t count) { return (count + kLanes<T> - 1) / kLanes<T> * kLanes<T>; }

  HWY_NOINLINE void ApplyRules(int64_t key, int64_t count) const {
    if (task.soft_cap != 0) {
      const T cap = task.soft_cap * std::numbers::log2e_v<T>;
      for (int64_t j = 0; j < count; ++j) strip[j] = cap * std::tanh(strip[j]);
    }
    for (int64_t j = 0; task.bias && j < count; ++j) {
      const T bias = task.bias[(key + j) * task.bias_key_stride];
      strip[j] = bias == -kInfinity<T> ? bias : strip[j] + bias * std::numbers::log2e_v<T>;
    }
    for (int64_t j = 0; task.mask && j < count; ++j) {
      if (!task.mask[(key + j) * task.mask_key_stride]) strip[j] = -kInfinity<T>;
    }
  }

  // Scores become weights; updates the maximum and the sum. Returns the factor of the earlier sums.
  HWY_NOINLINE T Exponentials(int64_t count, T& max, T& sum) const {
    const Tag<T> d;
    const T before = max;
    for (int64_t j = 0; j < count; ++j) max = std::max(max, strip[j]);
    T shift = max, factor;
    if (max == kInfinity<T>) {  // such scores share the weight; NaN propagates
      for (int64_t j = 0; j < count; ++j) {
        if (strip[j] == strip[j]) strip[j] = strip[j] == max ? T{0} : -kInfinity<T>;
      }
      shift = 0, factor = before == max ? 1 : 0;
    } else {
      if (max == -kInfinity<T>) shift = 0;  // all −inf so far: any finite number serves
      factor = std::exp2(before - shift);
    }
    auto total = hn::Zero(d);
    for (int64_t j = 0; j < count; j += kLanes<T>) {
      const auto weight = Exp2Flushed(d, hn::Sub(hn::LoadU(d, strip + j), hn::Set(d, shift)));
      hn::StoreU(weight, d, strip + j);
      total = hn::Add(total, weight);
    }
    sum = sum * factor + hn::GetLane(hn::SumOfLanes(d, total));
    return factor;
  }

  // out = out · factor + Σ_j strip[j] value[j], some vectors of out at a time, even and odd keys in separate sums.
  HWY_NOINLINE void AddValues(int64_t key, int64_t count, T factor) const {
    const Tag<T> d;
    constexpr int kVectors = 4;
    constexpr int64_t kStep = kVectors * kLanes<T>;
    for (int64_t e = 0; e < task.E_v; e += kStep) {
      const T* value = task.v + key * task.v_stride;
      if (task.E_v - e < kStep) {
        for (int64_t rest = e; rest < task.E_v; rest += kLanes<T>) {
          auto sum = hn::Zero(d);
          for (int64_t j = 0; j < count; ++j) {
            sum = hn::MulAdd(hn::Set(d, strip[j]), LoadPart(value + j * task.v_stride, rest, task.E_v), sum);
          }
          hn::StoreU(hn::MulAdd(hn::LoadU(d, out + rest), hn::Set(d, factor), sum), d, out + rest);
        }
        return;
      }
      Vector<T> sum[2][kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[0][v] = sum[1][v] = hn::Zero(d);
      const auto add = [&](Vector<T>(&to)[kVectors], int64_t j) HWY_ATTR {
        const auto weight = hn::Set(d, strip[j]);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
          to[v] = hn::MulAdd(weight, hn::LoadU(d, value + j * task.v_stride + e + v * kLanes<T>), to[v]);
        }
      };
      int64_t j = 0;
      for (; j + 2 <= count; j += 2) add(sum[0], j), add(sum[1], j + 1);
      if (j < count) add(sum[0], j);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        T* to = out + e + v * kLanes<T>;
        hn::StoreU(hn::MulAdd(hn::LoadU(d, to), hn::Set(d, factor), hn::Add(sum[0][v], sum[1][v])), d, to);
      }
    }
  }

  HWY_NOINLINE void Run() const {
    T max = task.sinks ? *task.sinks * std::numbers::log2e_v<T> : -kInfinity<T>;
    T sum = max == -kInfinity<T> ? 0 : 1;
    std::fill_n(out, PaddedKeys(task.E_v), T{0});
    for (int64_t e = 0; e < task.E; ++e) q[e] = task.q[e] * ScoreFactor<T>(task);
    const int64_t seen = std::min(task.keys, task.visible);
    for (int64_t key = 0; key < seen; key += kBlockKeys) {
      const int64_t count = std::min(kBlockKeys, seen - key);
      Scores(key, count);
      ApplyRules(key, count);
      AddValues(key, count, Exponentials(count, max, sum));
    }
    for (int64_t e = 0; e < task.E_v; ++e) task.out[e] = sum == 0 ? T{0} : out[e] / sum;
    *task.max = max, *task.sum = sum;
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#endif  // QKV_SIMD_ATTENTION_ROW_INL_H_
