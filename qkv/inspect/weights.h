// Reads a block's attention weights as matrices from any checkpoint, for qkv/algebra. Not here: which layers a model of
// text has (parts.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "qkv/algebra/projection.h"
#include "qkv/model/checkpoint/stored_blocks.h"

namespace qkv::inspect {

/// What normalises tokens before they are projected.
enum class TokenNorm { kNone, kLayerNorm, kRmsNorm };

/// The tokens that cross-attention reads, of another sequence and space than those that ask.
struct SourceTokens {
  TokenNorm norm = TokenNorm::kNone;  // the last one of what made them
  Tensor<double> gamma, beta;         // of that norm, [S]
};

/// All heads of one layer, nothing folded. If the kind of attention has no W_Q and W_K, these are those of
/// model::ReadQueryKeyValue, which give the same scores; merged heads have D rows instead of E. Keys and values that
/// heads share are repeated for each of them.
struct AttentionWeights {
  int64_t heads = 1;
  int64_t key_heads = 0;                   // heads of keys and values, which groups of heads share; 0: as many as heads
  double scale = 1;                        // s of the logits s · Q Kᵀ: 1 / sqrt(E) of the values' E
  TokenNorm norm = TokenNorm::kLayerNorm;  // the norm before the projections; in cross-attention, the queries'
  /// The norm is the last step of the layer before: its outputs, with gain and offset, are the hidden states, and go on
  /// in the residual stream.
  bool norm_is_stream = false;
  Tensor<double> gamma, beta;             // of that norm, [D]; empty without a norm
  double eps = 0;                         // of that norm
  std::optional<SourceTokens> source;     // for cross-attention: the tokens that keys and values come from
  algebra::Projection query, key, value;  // [H·r, D], values [H·E, D]; biases unless the model has none
  algebra::Projection output;             // [D, H·E], or empty: the joined heads are the output
  Tensor<double> layer_scale;             // LayerScale of the output, [D], or empty
  bool output_is_centred = true;          // the outputs are read through a LayerNorm

  int64_t width() const { return query.weight.dim(1); }  // D, of the tokens that ask
};

/// The projection of normalised tokens that equals `projection` of the norm's outputs: gain and offset folded in, and a
/// LayerNorm's mean taken off (algebra/fold.h). Without a norm a copy. gamma, beta: [D], or empty.
algebra::Projection FoldNorm(const algebra::ProjectionView& projection, TokenNorm norm, const Tensor<double>& gamma,
                             const Tensor<double>& beta);

/// FoldNorm of a layer's projections: queries by the norm before them, keys and values by that of their tokens.
struct FoldedProjections {
  algebra::Projection query, key, value;
};
FoldedProjections FoldNorms(const AttentionWeights& weights);

/// Whether the blocks have a LayerNorm before attention, which rewriting assumes.
bool HasLayerNormBefore(const nn::BlockConfig& config);
/// Throws Error unless HasLayerNormBefore.
void RequireLayerNormBefore(const nn::BlockConfig& config, std::string_view source);

/// The norm that a layer's tokens come from, by its tensors' prefix in the model, such as "blocks.0.norm1."; empty:
/// none.
struct NormBefore {
  std::string name;
  bool is_stream = false;  // AttentionWeights::norm_is_stream
};

/// The self-attention of a block, or its cross-attention without the tokens that it reads (AttentionWeights::source).
/// Throws Error if there is no such block or layer, its scores do not come from tokens, or a tensor is not finite.
AttentionWeights ReadAttention(const model::StoredBlocks& blocks, int64_t block, const NormBefore& norm,
                               bool cross = false);

/// The self-attention of a block with a LayerNorm before it. Throws Error if there is no such block, its scores do not
/// come from tokens, its norm is another, or a tensor is not finite.
AttentionWeights ReadAttention(const model::StoredBlocks& blocks, int64_t block);

}  // namespace qkv::inspect
