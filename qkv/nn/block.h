// Forward pass of a Transformer block: attention, optional cross-attention, MLP. NormPlace says where the norms are.
// Not here: training (training/block.h).
#pragma once

#include "qkv/nn/attention.h"
#include "qkv/nn/mlp.h"

namespace qkv::nn {

template <typename T>
struct Block {
  NormPlace norm_place = NormPlace::kBefore;
  Norm<T> norm1;
  AttentionLayer<T> attention;
  Tensor<T> scale1;  // LayerScale (Touvron et al. 2021) [D], or empty
  // Cross-attention, between attention and MLP; used if the context has a source.
  Norm<T> norm_cross;
  AttentionLayer<T> cross;
  Tensor<T> scale_cross;
  Norm<T> norm2;
  Mlp<T> mlp;
  Tensor<T> scale2;
};

/// Updates the first `rows` tokens (with context.last_rows: the last) of each sequence of x, [B, N, D], dense; the
/// other tokens serve only as keys and values. rows = N computes the whole block. Fewer rows give the same values for
/// those rows, and suffice if the model reads only the class token or the last token of its last block. A block with
/// cross-attention reads context.source. With a probe, rows = N.
template <typename T>
void BlockForward(View<T> x, const Block<T>& block, int64_t rows, Arena& arena,
                  const AttentionContext<T>& context = {});

/// Computes only the attention weights of the block. x: [B, N, D], input of the block.
template <typename T>
void BlockWeights(View<const T> x, const Block<T>& block, Arena& arena, const AttentionContext<T>& context);

}  // namespace qkv::nn
