// Reads a block's attention weights as matrices from any checkpoint, for qkv/algebra.
#pragma once

#include <cstdint>
#include <string_view>

#include "qkv/algebra/projection.h"
#include "qkv/model/checkpoint/stored_blocks.h"

namespace qkv::inspect {

/// All heads of one block, nothing folded. If the kind of attention has no W_Q and W_K, these are those of
/// model::ReadQueryKeyValue, which give the same scores; merged heads have D rows instead of E.
struct AttentionWeights {
  int64_t heads = 1;
  double scale = 1;                       // s of the logits s · Q Kᵀ: 1 / sqrt(E) of the values' E
  Tensor<double> gamma, beta;             // of the LayerNorm before the projections, [D]
  double eps = 0;                         // of that norm
  algebra::Projection query, key, value;  // [H·r, D], values [H·E, D]; biases unless the model has none
  algebra::Projection output;             // [D, H·E], or empty: the joined heads are the output
  Tensor<double> layer_scale;             // LayerScale of the output, [D], or empty
};

/// Whether the blocks have a LayerNorm before attention, which the analysis of heads and tokens assumes.
bool HasLayerNormBefore(const nn::BlockConfig& config);
/// Throws Error unless HasLayerNormBefore.
void RequireLayerNormBefore(const nn::BlockConfig& config, std::string_view source);

/// Throws Error if there is no such block, its scores do not come from tokens, its norm is another, or a tensor is not
/// finite.
AttentionWeights ReadAttention(const model::StoredBlocks& blocks, int64_t block);

}  // namespace qkv::inspect
