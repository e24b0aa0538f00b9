// Attention and its gradient with products in bfloat16: the kernels of qkv/attention for processors with bfloat16
// instructions.
#pragma once

#include <span>

#include "qkv/simd/attention/backward.h"
#include "qkv/simd/attention/tile.h"
#include "qkv/simd/gemm/tile_kernel.h"

namespace qkv::simd {

/// Queries per panel, like AttentionPanel.
inline constexpr int64_t kAttentionBf16Panel = 32;

/// The kernel of the processor under ActiveIsa(), or null if products in bfloat16 would not be faster.
const internal::TileKernel* AttentionBf16Kernel();

/// Elements of scratch for a task of so many rows. Align it to kAlignment.
int64_t AttentionBf16Scratch(int64_t rows, int64_t E, int64_t E_v);

/// AttentionTile with queries, keys, values and weights rounded to bfloat16 before multiplication. Sums, the softmax
/// and the output are float. `kernel` multiplies bfloat16, in panels of kAttentionBf16Panel.
void AttentionTileBf16(const AttentionTask<float>& task, const internal::TileKernel& kernel, float* scratch);

/// Greatest number of keys in a block of the gradient: kAttentionGradientKeys would double the work of arranging
/// operands.
inline constexpr int64_t kAttentionGradientKeysBf16 = 256;

/// Elements of scratch for the gradient. Align it to kAlignment.
int64_t AttentionGradientBf16Scratch(int64_t E, int64_t E_v);

/// AttentionGradient with the operands of its five products rounded to bfloat16, the queries of the scores as in
/// AttentionTileBf16. Its blocks have kAttentionGradientKeysBf16 keys. Sums, the softmax and its derivative are float.
void AttentionGradientBf16(std::span<const AttentionGradientTask<float>> heads, const AttentionGradientPart& part,
                           const internal::TileKernel& kernel, float* scratch);

}  // namespace qkv::simd
