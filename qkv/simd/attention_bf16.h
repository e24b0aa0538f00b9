// Attention and its gradient with products in bfloat16: the inner part of qkv/attention where the processor has
// instructions for them.
#pragma once

#include <span>

#include "qkv/simd/attention_gradient.h"
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

/// Keys of a block of the gradient at most: kAttentionGradientKeys of it would leave twice as much to arrange.
inline constexpr int64_t kAttentionGradientKeysBf16 = 256;

/// Elements of scratch for the gradient. Align it to kAlignment.
int64_t AttentionGradientBf16Scratch(int64_t E, int64_t E_v);

/// AttentionGradient, but what its five products multiply is rounded to bfloat16 first, the queries of the scores as
/// in AttentionTileBf16. Its blocks have kAttentionGradientKeysBf16 keys. Sums, the softmax and its derivative are
/// float.
void AttentionGradientBf16(std::span<const AttentionGradientTask<float>> heads, const AttentionGradientPart& part,
                           const internal::TileKernel& kernel, float* scratch);

}  // namespace qkv::simd
