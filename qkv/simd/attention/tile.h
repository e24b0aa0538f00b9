// Attention of some queries of one head, on raw pointers: the kernel of qkv/attention. The caller provides the scratch;
// nothing is allocated or checked.
#pragma once

#include <algorithm>
#include <cstdint>

namespace qkv::simd {

// The keys that some of adjacent rows see. A block of keys without any is skipped, so the others are adjacent. The
// block of `from` is never skipped, even if no row sees a key: it is the first, which writes what others add to.
struct VisibleKeys {
  int64_t from, end;  // `from` is a key if there are any; `end` may be less, or negative
  // Of the block [block_begin, block_end):
  bool Skips(int64_t block_begin, int64_t block_end) const {
    return block_begin < from ? block_end <= from : block_begin > from && block_begin >= end;
  }
  bool IsFirst(int64_t block_begin) const { return block_begin <= from; }  // if not skipped
};

// Inputs and options of the scores.
template <typename T>
struct AttentionScores {
  const T* q = nullptr;                // [rows, E]
  const T* k = nullptr;                // [keys, E]
  int64_t q_stride = 0, k_stride = 0;  // from row to row
  int64_t rows = 0, keys = 0, E = 0;
  T scale = 1;
  T soft_cap = 0;  // 0: off
  // Row i sees keys j with i + first <= j < i + visible and j < key_end. The gradient divides all keys of a batch into
  // blocks, of which an entry has only the first key_end; elsewhere `keys` says it.
  int64_t first = -kAllVisible, visible = kAllVisible, key_end = kAllVisible;
  const T* bias = nullptr;  // [rows, keys], or null
  int64_t bias_stride = 0, bias_key_stride = 0;
  const bool* mask = nullptr;  // [rows, keys], or null
  int64_t mask_stride = 0, mask_key_stride = 0;
  const T* sinks = nullptr;  // [rows], a score without a key in each row's sum; or null. The gradient does not read it.
  int64_t sink_stride = 0;   // 0: one for all rows

  // Dropout: the weight of row i and key j becomes 0 if DropoutHash::Of(MixSeed(dropout_seed, dropout_row + i), j) is
  // below dropout_below (0: off), else it is multiplied by dropout_scale.
  int32_t dropout_below = 0;
  T dropout_scale = 1;
  uint64_t dropout_seed = 0;
  int64_t dropout_row = 0;

  static constexpr int64_t kAllVisible = int64_t{1} << 60;

  // To rows first_row … last_row.
  VisibleKeys Visible(int64_t first_row, int64_t last_row) const {
    const int64_t end = std::min(keys, key_end);
    return {std::clamp<int64_t>(first + first_row, 0, std::max<int64_t>(0, end - 1)),
            std::min(end, visible + last_row)};
  }
};

template <typename T>
struct AttentionTask : AttentionScores<T> {
  const T* v = nullptr;                                  // [keys, E_v]; not used by AttentionTileWeights
  T* out = nullptr;                                      // [rows, E_v], or [rows, keys] for AttentionTileWeights
  T* lse = nullptr;                                      // [rows], or null
  int64_t v_stride = 0, out_stride = 0, lse_stride = 0;  // from row to row
  int64_t E_v = 0;
  // [rows] each, or null: the greatest score times log2(e), and the sum of the weights before division. They combine
  // the parts of a row that is split along its keys.
  T *max = nullptr, *sum = nullptr;

  // q, k and v of the thread's next task, of the same shapes and strides, for prefetching; null if unknown.
  const T *next_q = nullptr, *next_k = nullptr, *next_v = nullptr;
};

/// Queries that are processed side by side. A task's first row should be a multiple of it, so that a row's result does
/// not depend on the division into tasks.
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

/// AttentionTile for a task of one row, which sees the first key. It requires max and sum, ignores dropout and does not
/// write lse. Sums run in another order.
template <typename T>
void AttentionRow(const AttentionTask<T>& task, T* scratch);

}  // namespace qkv::simd
