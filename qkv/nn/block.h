// A Transformer block, forward: attention, cross-attention where there is one, MLP; see NormPlace for its norms.
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
  // Cross-attention between attention and MLP, of blocks of which the context has a source.
  Norm<T> norm_cross;
  AttentionLayer<T> cross;
  Tensor<T> scale_cross;
  Norm<T> norm2;
  Mlp<T> mlp;
  Tensor<T> scale2;
};

/// Updates the first `rows` tokens of each sequence of x: [B, N, D], dense, or with context.last_rows the last; the
/// others only serve as keys and values. rows = N is the whole block. Fewer rows are exact, and enough for a model
/// whose last block is read at its class token alone, or at its last token. A block with cross-attention reads
/// context.source.
template <typename T>
void BlockForward(View<T> x, const Block<T>& block, int64_t rows, Arena& arena,
                  const AttentionContext<T>& context = {});

/// The attention weights of the block alone. x: [B, N, D], what enters the block.
template <typename T>
void BlockWeights(View<const T> x, const Block<T>& block, Arena& arena, const AttentionContext<T>& context);

}  // namespace qkv::nn
