// The gradient of attention on raw pointers: the kernel of qkv/attention/backward. The caller provides the
// scratch; nothing is allocated or checked.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "qkv/simd/attention/tile.h"

namespace qkv::simd {

/// One head, all its queries and keys.
template <typename T>
struct AttentionGradientTask : AttentionScores<T> {
  const T* v = nullptr;                                   // [keys, E_v]
  const T* lse = nullptr;                                 // [rows], output of the forward pass
  const T* dout = nullptr;                                // [rows, E_v]
  const T* delta = nullptr;                               // [rows]: Σ_e dout · out
  int64_t v_stride = 0, lse_stride = 0, dout_stride = 0;  // from row to row
  int64_t E_v = 0;

  T* dq = nullptr;     // [rows, E]
  T* dk = nullptr;     // [keys, E]
  T* dv = nullptr;     // [keys, E_v]
  T* dbias = nullptr;  // [rows, keys], accumulated; or null
  int64_t dq_stride = 0, dk_stride = 0, dv_stride = 0, dbias_stride = 0, dbias_key_stride = 0;
};

/// The blocks of keys to process. Those that a block of queries sees add to its dq, in their order; the first writes.
/// If threads share them, each waits at every block of queries until the preceding block of keys is done with it, so no
/// bit of the result changes. Threads must take the blocks in ascending order, and `progress` must start as zeros;
/// otherwise they deadlock.
struct AttentionGradientPart {
  int64_t key_block_begin = 0, key_block_end = 0;
  int64_t* progress = nullptr;  // [blocks of keys]: number of finished blocks of queries, over all heads; or null
};

/// Queries per block.
inline constexpr int64_t kAttentionGradientRows = 64;
/// Greatest number of keys per block. The keys, the values, their gradients and the strips of a block are reused many
/// times: 128 × 64 × 4 bytes each when E = 64, together half of a second-level cache of 512 KiB.
inline constexpr int64_t kAttentionGradientKeys = 128;
/// Number of blocks, each of at most so many keys, for `keys` keys.
inline int64_t AttentionGradientKeyBlocks(int64_t keys, int64_t most) {
  return std::max<int64_t>(1, (keys + most - 1) / most);
}
/// The first key of a block.
inline int64_t AttentionGradientKey(int64_t block, int64_t keys, int64_t most) {
  return block * keys / AttentionGradientKeyBlocks(keys, most);
}

/// Elements of scratch. Align it to kAlignment.
template <typename T>
int64_t AttentionGradientScratch(int64_t E, int64_t E_v);

/// The gradients of heads that share k, v, dk and dv.
template <typename T>
void AttentionGradient(std::span<const AttentionGradientTask<T>> heads, const AttentionGradientPart& part, T* scratch);

/// delta[i] = Σ_e dout[i, e] · out[i, e] for `rows` rows.
template <typename T>
void AttentionDelta(const T* out, int64_t out_stride, const T* dout, int64_t dout_stride, int64_t rows, int64_t E_v,
                    T* delta);

}  // namespace qkv::simd
