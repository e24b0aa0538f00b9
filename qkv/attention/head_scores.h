// Shared by the fused call and its gradient: shape checks, and the scores of one head as a task of the kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "qkv/attention/attention.h"
#include "qkv/core/dropout_hash.h"
#include "qkv/core/rng.h"
#include "qkv/simd/attention/bf16.h"
#include "qkv/simd/attention/tile.h"

namespace qkv::attention {

template <typename T>
void CheckQueriesAndKeys(View<const T> q, View<const T> k) {
  Require(q.rank() == 4 && k.rank() == 4, "attention: expected q and k of rank 4, got {} and {}", q.shape(), k.shape());
  Require(k.dim(0) == q.dim(0) && k.dim(3) == q.dim(3), "attention: k {} does not fit q {} [B, H, N, E]", k.shape(),
          q.shape());
  Require(k.dim(1) > 0 && q.dim(1) % k.dim(1) == 0, "attention: {} heads cannot share {} key heads", q.dim(1),
          k.dim(1));
  Require((q.stride(3) == 1 || q.dim(3) <= 1) && (k.stride(3) == 1 || k.dim(3) <= 1),
          "attention: expected a dense last axis of q and k");
}

template <typename T>
void CheckValues(View<const T> k, View<const T> v) {
  Require(v.rank() == 4 && v.dim(0) == k.dim(0) && v.dim(1) == k.dim(1) && v.dim(2) == k.dim(2),
          "attention: v {} does not fit k {} [B, H, N, E]", v.shape(), k.shape());
  Require(v.stride(3) == 1 || v.dim(3) <= 1, "attention: expected a dense last axis of v");
}

template <typename T>
void CheckBroadcast(const char* name, View<const T> view, int64_t B, int64_t H, int64_t N_q, int64_t N_k) {
  if (view.empty()) return;
  const int64_t full[] = {B, H, N_q, N_k};
  bool fits = view.rank() == 4 && view.dim(3) == N_k;
  for (int axis = 0; fits && axis < 3; ++axis) fits = view.dim(axis) == 1 || view.dim(axis) == full[axis];
  Require(fits, "attention: {} {} does not broadcast to [{}, {}, {}, {}]", name, view.shape(), B, H, N_q, N_k);
}

template <typename T>
void CheckOptions(const Options<T>& options, int64_t B, int64_t H, int64_t N_q, int64_t N_k) {
  CheckBroadcast("bias", options.bias, B, H, N_q, N_k);
  CheckBroadcast("mask", options.mask, B, H, N_q, N_k);
  Require(options.dropout >= 0 && options.dropout < 1, "attention: expected 0 <= dropout < 1, got {}", options.dropout);
  Require(options.window_left >= -1 && options.window_right >= -1,
          "attention: expected windows of at least 0 keys, or -1 for no limit, got {} and {}", options.window_left,
          options.window_right);
  constexpr int64_t kFarthest = int64_t{1} << 59;
  Require(-kFarthest <= options.first_position && options.first_position <= kFarthest,
          "attention: expected a first position of -2^59 to 2^59, got {}", options.first_position);
  Require(options.sinks.empty() || options.sinks.shape() == Shape({H}), "attention: expected sinks [{}], got {}", H,
          options.sinks.shape());
  if (options.key_lengths.empty()) return;
  Require(options.key_lengths.shape() == Shape({B}), "attention: expected key lengths [{}], got {}", B,
          options.key_lengths.shape());
  for (int64_t b = 0; b < B; ++b) {
    const int64_t length = *options.key_lengths.at(b);
    Require(length >= 0 && length <= N_k, "attention: expected key lengths of 0 to {}, got {} for entry {}", N_k,
            length, b);
  }
}

// The number of keys of batch entry b.
template <typename T>
int64_t KeyLength(const Options<T>& options, int64_t b, int64_t N_k) {
  return options.key_lengths.empty() ? N_k : *options.key_lengths.at(b);
}

// Keys that causal order and window let a query see, relative to its position: [first, end).
struct KeyWindow {
  template <typename T>
  explicit KeyWindow(const Options<T>& options) {
    constexpr int64_t kAll = simd::AttentionScores<T>::kAllVisible;  // keeps sums from overflowing
    first = options.window_left < 0 ? -kAll : -std::min(options.window_left, kAll);
    end = options.window_right < 0 ? kAll : std::min(options.window_right, kAll - 1) + 1;
    if (options.causal != Causal::kNone) end = std::min<int64_t>(end, 1);
  }
  int64_t first, end;
};

// The position of query 0 in an entry with key_length keys.
template <typename T>
int64_t FirstPosition(const Options<T>& options, int64_t N_q, int64_t key_length) {
  return options.first_position + (options.causal == Causal::kBottomRight ? key_length - N_q : 0);
}

// The bfloat16 kernel for N_q queries per head, or null for products in T. With one panel of queries or fewer, rounding
// all keys and values costs more than it saves: with 12 heads of 197 or 1000 keys, E = 64, 1 to 16 queries took 1.8
// times as long as in float, 32 queries 1.1 times (Zen 5).
template <typename T>
const simd::internal::TileKernel* Bf16Kernel(const Options<T>& options, int64_t N_q) {
  const bool pays = std::is_same_v<T, float> && N_q > simd::kAttentionBf16Panel;
  return options.bf16 && pays ? simd::AttentionBf16Kernel() : nullptr;
}

template <typename T>
int64_t BroadcastStride(View<T> view, int axis) {
  return view.dim(axis) == 1 ? 0 : view.stride(axis);
}

// Fills in rows [row, row + rows) of head (b, h) and the keys of entry b.
template <typename T>
void FillScores(View<const T> q, View<const T> k, const Options<T>& options, int64_t b, int64_t h, int64_t row,
                int64_t rows, simd::AttentionScores<T>& task) {
  const int64_t group = q.dim(1) / k.dim(1);
  task.q = q.at(b, h, row), task.q_stride = q.stride(2);
  task.k = k.at(b, h / group), task.k_stride = k.stride(2);
  task.rows = rows, task.keys = KeyLength(options, b, k.dim(2)), task.E = q.dim(3);
  task.scale = options.scale != 0 ? options.scale : T{1} / std::sqrt(static_cast<T>(std::max<int64_t>(1, q.dim(3))));
  task.soft_cap = options.soft_cap;
  const int64_t position = row + FirstPosition(options, q.dim(2), task.keys);
  const KeyWindow window(options);
  task.first = position + window.first, task.visible = position + window.end;
  if (options.dropout > 0) {
    task.dropout_below = DropoutThreshold(options.dropout), task.dropout_scale = 1 / (1 - options.dropout);
    const int64_t head = (options.first_batch + b) * q.dim(1) + h;
    task.dropout_seed = MixSeed(options.seed, static_cast<uint64_t>(head)), task.dropout_row = row;
  }
  if (const auto& bias = options.bias; !bias.empty()) {
    task.bias_stride = BroadcastStride(bias, 2), task.bias_key_stride = bias.stride(3);
    task.bias = bias.data() + b * BroadcastStride(bias, 0) + h * BroadcastStride(bias, 1) + row * task.bias_stride;
  }
  if (const auto& sinks = options.sinks; !sinks.empty()) {
    // Two axes: heads that share keys are queries of one head, each with a sink of its own.
    const bool grouped = sinks.rank() == 2;
    task.sinks = grouped ? sinks.at(h, row) : sinks.at(h), task.sink_stride = grouped ? sinks.stride(1) : 0;
  }
  if (const auto& mask = options.mask; !mask.empty()) {
    task.mask_stride = BroadcastStride(mask, 2), task.mask_key_stride = mask.stride(3);
    task.mask = mask.data() + b * BroadcastStride(mask, 0) + h * BroadcastStride(mask, 1) + row * task.mask_stride;
  }
}

}  // namespace qkv::attention
