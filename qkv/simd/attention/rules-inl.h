// Operations on raw scores before their softmax (soft cap, bias, mask, causal limit and window) and on weights after it
// (dropout), on a strip [key][query]. The forward pass and the gradient share them.

#if defined(QKV_SIMD_ATTENTION_RULES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_SIMD_ATTENTION_RULES_INL_H_
#undef QKV_SIMD_ATTENTION_RULES_INL_H_
#else
#define QKV_SIMD_ATTENTION_RULES_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "qkv/core/dropout_hash.h"
#include "qkv/core/rng.h"
#include "qkv/simd/attention/tile.h"
#include "qkv/simd/gemm/tile-inl.h"
#include "qkv/simd/gemm/transpose-inl.h"
#include "qkv/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {

// Queries side by side in a panel of two vectors.
template <typename T>
inline constexpr int kAttentionPanel = 2 * kLanes<T>;
// A strip of this many keys by a panel is 32 KiB in AVX-512 and 16 KiB in AVX2.
inline constexpr int64_t kBlockKeys = 256;
template <typename T>
inline constexpr T kInfinity = std::numeric_limits<T>::infinity();

// Factor of the queries: products with keys are then scores times log2(e), or the argument of the soft cap's tanh.
template <typename T>
HWY_INLINE T ScoreFactor(const AttentionScores<T>& task) {
  return task.soft_cap == 0 ? task.scale * std::numbers::log2e_v<T> : task.scale / task.soft_cap;
}

// The rules for a panel of V vectors of queries. The strip has kStride elements from key to key.
template <typename T, int V, int kStride>
struct ScoreRules {
  static constexpr int kWidth = V * kLanes<T>;

  const AttentionScores<T>& task;
  int64_t row;  // of the first query
  T* strip;     // [at most kBlockKeys][kStride]
  T* extra;     // [kBlockKeys][kWidth]: a bias or a mask, transposed

  // The row of a lane; lanes past the end repeat the last one.
  int64_t LaneRow(int lane) const { return std::min(row + lane, task.rows - 1); }

  // Whether the scores of keys key … key + count − 1 change at all.
  bool Any(int64_t key, int64_t count) const {
    return task.soft_cap != 0 || task.bias || task.mask || HidesLast(key + count) || HidesFirst(key);
  }

  HWY_INLINE void BiasAndMasks(int64_t key, int64_t count) const {
    if (task.bias) AddBias(key, count);
    if (task.mask) ApplyMask(key, count);
    if (HidesLast(key + count)) HideLast(key, count);
    if (HidesFirst(key)) HideFirst(key, count);
  }

  // Whether some row does not see the keys up to `end`, or those from `key` on.
  HWY_INLINE bool HidesLast(int64_t end) const { return end > std::min(task.visible + row, task.key_end); }
  HWY_INLINE bool HidesFirst(int64_t key) const { return key < task.first + LaneRow(kWidth - 1); }

  HWY_INLINE void SoftCap(int64_t count) const {
    const Tag<T> d;
    const auto cap = hn::Set(d, task.soft_cap * std::numbers::log2e_v<T>);
    for (int64_t j = 0; j < count; ++j) {
      for (T *s = strip + j * kStride, *end = s + kWidth; s != end; s += kLanes<T>) {
        if constexpr (sizeof(T) == 4) {
          hn::StoreU(hn::Mul(cap, Tanh(d, hn::LoadU(d, s))), d, s);
        } else {
          for (int i = 0; i < kLanes<T>; ++i) s[i] = std::tanh(s[i]) * (task.soft_cap * std::numbers::log2e_v<T>);
        }
      }
    }
  }

  HWY_INLINE void AddBias(int64_t key, int64_t count) const {
    const Tag<T> d;
    const auto log2e = hn::Set(d, std::numbers::log2e_v<T>), low = hn::Set(d, -kInfinity<T>);
    const bool same_for_all = task.bias_stride == 0;
    if (!same_for_all) TransposeBias(key, count);
    for (int64_t j = 0; j < count; ++j) {
      for (int i = 0; i < kWidth; i += kLanes<T>) {
        T* s = strip + j * kStride + i;
        const auto bias = same_for_all ? hn::Set(d, task.bias[(key + j) * task.bias_key_stride])
                                       : hn::LoadU(d, extra + j * kWidth + i);
        // A bias of −infinity hides the key for any score: no ∞ − ∞.
        hn::StoreU(hn::IfThenElse(hn::Eq(bias, low), low, hn::MulAdd(bias, log2e, hn::LoadU(d, s))), d, s);
      }
    }
  }

  HWY_INLINE void TransposeBias(int64_t key, int64_t count) const {
    for (int v = 0; v < V; ++v) {
      const T* rows[kLanes<T>];
      for (int i = 0; i < kLanes<T>; ++i) {
        rows[i] = task.bias + LaneRow(v * kLanes<T> + i) * task.bias_stride + key * task.bias_key_stride;
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

  HWY_INLINE void ApplyMask(int64_t key, int64_t count) const {
    const Tag<T> d;
    const auto low = hn::Set(d, -kInfinity<T>);
    if (task.mask_stride == 0) {
      for (int64_t j = 0; j < count; ++j) {
        if (task.mask[(key + j) * task.mask_key_stride]) continue;
        for (int i = 0; i < kWidth; i += kLanes<T>) hn::StoreU(low, d, strip + j * kStride + i);
      }
      return;
    }
    for (int v = 0; v < V; ++v) TransposeMask(v, key, count);
    const auto zero = hn::Zero(d);
    for (int64_t j = 0; j < count; ++j) {
      for (int i = 0; i < kWidth; i += kLanes<T>) {
        T* s = strip + j * kStride + i;
        const auto hidden = hn::Eq(hn::LoadU(d, extra + j * kWidth + i), zero);
        hn::StoreU(hn::IfThenElse(hidden, low, hn::LoadU(d, s)), d, s);
      }
    }
  }

  // The mask of vector v as numbers, transposed: 0 where a key is hidden.
  HWY_INLINE void TransposeMask(int v, int64_t key, int64_t count) const {
    HWY_ALIGN T numbers[kLanes<T>][kBlockKeys];
    const T* rows[kLanes<T>];
    for (int i = 0; i < kLanes<T>; ++i) {
      const bool* mask = task.mask + LaneRow(v * kLanes<T> + i) * task.mask_stride + key * task.mask_key_stride;
      rows[i] = numbers[i];
      int64_t j = 0;
      if constexpr (sizeof(T) == 4) {
        const Tag<T> d;
        const hn::RebindToSigned<Tag<T>> di;
        const hn::Rebind<uint8_t, Tag<T>> bytes;
        for (; task.mask_key_stride == 1 && j + kLanes<T> <= count; j += kLanes<T>) {
          const auto some = hn::LoadU(bytes, reinterpret_cast<const uint8_t*>(mask) + j);
          hn::StoreU(hn::ConvertTo(d, hn::PromoteTo(di, some)), d, numbers[i] + j);
        }
      }
      for (; j < count; ++j) numbers[i][j] = static_cast<T>(mask[j * task.mask_key_stride]);
    }
    TransposeIn(rows, count, T{1}, extra + v * kLanes<T>, kWidth);
  }

  HWY_INLINE void HideLast(int64_t key, int64_t count) const {
    const Tag<T> d;
    const auto low = hn::Set(d, -kInfinity<T>);
    HWY_ALIGN T limits[kWidth];  // keys of this block visible to each lane; small numbers, exact in T
    for (int i = 0; i < kWidth; ++i) {
      const int64_t end = std::min(task.visible + LaneRow(i), task.key_end);
      limits[i] = static_cast<T>(std::clamp<int64_t>(end - key, 0, count));
    }
    for (int64_t j = 0; j < count; ++j) {
      for (int i = 0; i < kWidth; i += kLanes<T>) {
        T* s = strip + j * kStride + i;
        const auto seen = hn::Lt(hn::Set(d, static_cast<T>(j)), hn::Load(d, limits + i));
        hn::StoreU(hn::IfThenElse(seen, hn::LoadU(d, s), low), d, s);
      }
    }
  }

  HWY_INLINE void HideFirst(int64_t key, int64_t count) const {
    const Tag<T> d;
    const auto low = hn::Set(d, -kInfinity<T>);
    HWY_ALIGN T limits[kWidth];  // keys of this block hidden from each lane; small numbers, exact in T
    for (int i = 0; i < kWidth; ++i) {
      limits[i] = static_cast<T>(std::clamp<int64_t>(task.first + LaneRow(i) - key, 0, count));
    }
    for (int64_t j = 0; j < static_cast<int64_t>(limits[kWidth - 1]); ++j) {
      for (int i = 0; i < kWidth; i += kLanes<T>) {
        T* s = strip + j * kStride + i;
        const auto hidden = hn::Lt(hn::Set(d, static_cast<T>(j)), hn::Load(d, limits + i));
        hn::StoreU(hn::IfThenElse(hidden, low, hn::LoadU(d, s)), d, s);
      }
    }
  }

  // Sets weights from `key` on to 0 or scales them.
  HWY_NOINLINE void Drop(int64_t key, int64_t count) const {
    const Tag<T> d;
    HWY_ALIGN uint32_t low[kWidth], high[kWidth];
    for (int i = 0; i < kWidth; ++i) {
      const uint64_t bits = MixSeed(task.dropout_seed, static_cast<uint64_t>(task.dropout_row + LaneRow(i)));
      low[i] = static_cast<uint32_t>(bits), high[i] = static_cast<uint32_t>(bits >> 32);
    }
    for (int64_t j = 0; j < count; ++j) {
      T* s = strip + j * kStride;
      if constexpr (sizeof(T) == 4) {
        const hn::RebindToSigned<Tag<T>> di;
        const hn::RebindToUnsigned<Tag<T>> du;
        using Hash = DropoutHash;
        const auto key_bits = hn::Set(du, static_cast<uint32_t>(key + j) * Hash::kKeyStep);
        for (int i = 0; i < kWidth; i += kLanes<T>) {
          auto x = hn::Add(key_bits, hn::Load(du, low + i));
          x = hn::Mul(hn::Xor(x, hn::ShiftRight<16>(x)), hn::Set(du, Hash::kFirst));
          x = hn::Add(hn::Xor(x, hn::ShiftRight<15>(x)), hn::Load(du, high + i));
          x = hn::Mul(x, hn::Set(du, Hash::kSecond));
          const auto bits = hn::BitCast(di, hn::ShiftRight<1>(hn::Xor(x, hn::ShiftRight<16>(x))));
          const auto dropped = hn::RebindMask(d, hn::Lt(bits, hn::Set(di, task.dropout_below)));
          const auto scaled = hn::Mul(hn::LoadU(d, s + i), hn::Set(d, task.dropout_scale));
          hn::StoreU(hn::IfThenElse(dropped, hn::Zero(d), scaled), d, s + i);
        }
      } else {
        for (int i = 0; i < kWidth; ++i) {
          const uint64_t bits = uint64_t{high[i]} << 32 | low[i];
          const auto hash = static_cast<int32_t>(DropoutHash::Of(bits, static_cast<uint32_t>(key + j)));
          s[i] = hash < task.dropout_below ? 0 : s[i] * task.dropout_scale;
        }
      }
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#endif  // QKV_SIMD_ATTENTION_RULES_INL_H_
