// Attention of some queries of one head, on raw pointers: the inner part of qkv/attention. Scratch comes from outside,
// nothing is allocated, nothing is checked.
#pragma once

#include <cstdint>

namespace qkv::simd {

// How scores are made.
template <typename T>
struct AttentionScores {
  const T* q = nullptr;                // [rows, E]
  const T* k = nullptr;                // [keys, E]
  int64_t q_stride = 0, k_stride = 0;  // from row to row
  int64_t rows = 0, keys = 0, E = 0;
  T scale = 1;
  T soft_cap = 0;  // 0: off
  // Row i sees keys j < i + visible.
  int64_t visible = kAllVisible;
  const T* bias = nullptr;  // [rows, keys], or null
  int64_t bias_stride = 0, bias_key_stride = 0;
  const bool* mask = nullptr;  // [rows, keys], or null
  int64_t mask_stride = 0, mask_key_stride = 0;

  // The weight of row i and key j becomes 0 where DropoutHash::Of(MixSeed(dropout_seed, dropout_row + i), j) is below
  // dropout_below (0: off), and is multiplied by dropout_scale elsewhere.
  int32_t dropout_below = 0;
  T dropout_scale = 1;
  uint64_t dropout_seed = 0;
  int64_t dropout_row = 0;

  static constexpr int64_t kAllVisible = int64_t{1} << 60;
};

template <typename T>
struct AttentionTask : AttentionScores<T> {
  const T* v = nullptr;                                  // [keys, E_v]; not used by AttentionTileWeights
  T* out = nullptr;                                      // [rows, E_v], or [rows, keys] for AttentionTileWeights
  T* lse = nullptr;                                      // [rows], or null
  int64_t v_stride = 0, out_stride = 0, lse_stride = 0;  // from row to row
  int64_t E_v = 0;
  // [rows] each, or null: the greatest score times log2(e), and the sum of the weights before they were divided by it.
  // What the parts of a row that was cut along its keys need to be put together.
  T *max = nullptr, *sum = nullptr;

  // Where the thread's next task will find its q, k and v, of the same shapes and strides; null when not known. They
  // are fetched into the cache ahead of time.
  const T *next_q = nullptr, *next_k = nullptr, *next_v = nullptr;
};

/// Queries that are worked on side by side: a task's first row should be a multiple of it, so that a row's result does
/// not depend on how rows were cut into tasks.
template <typename T>
int64_t AttentionPanel();

/// Elements of scratch for a task of so many rows; E_v is 0 for AttentionTileWeights. Align it to kAlignment.
template <typename T>
int64_t AttentionScratch(int64_t rows, int64_t E, int64_t E_v);

template <typename T>
void AttentionTile(const AttentionTask<T>& task, T* scratch);

/// out = the softmaxed weights.
template <typename T>
void AttentionTileWeights(const AttentionTask<T>& task, T* scratch);

/// AttentionTile for a task of one row, which it needs max and sum of; dropout is left out and lse not written. Sums
/// run in another order.
template <typename T>
void AttentionRow(const AttentionTask<T>& task, T* scratch);

}  // namespace qkv::simd
