// Attention of some queries of one head with products in bfloat16: the inner part of qkv/attention where the processor
// has instructions for them.
#pragma once

#include "qkv/simd/attention_tile.h"
#include "qkv/simd/tile_kernel.h"

namespace qkv::simd {

/// Queries that are worked on side by side, as with AttentionPanel.
inline constexpr int64_t kAttentionBf16Panel = 32;

/// The kernel that the processor and ActiveIsa() offer, or null where products in bfloat16 would be no faster.
const internal::TileKernel* AttentionBf16Kernel();

/// Elements of scratch for a task of so many rows. Align it to kAlignment.
int64_t AttentionBf16Scratch(int64_t rows, int64_t E, int64_t E_v);

/// AttentionTile, but queries, keys, values and weights are rounded to bfloat16 before they are multiplied. Sums, the
/// softmax and the output are float. `kernel` multiplies bfloat16, in panels of kAttentionBf16Panel.
void AttentionTileBf16(const AttentionTask<float>& task, const internal::TileKernel& kernel, float* scratch);

}  // namespace qkv::simd
