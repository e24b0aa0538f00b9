// A pre-norm Transformer block, forward: x += ls1 · attention(norm1 x); x += ls2 · mlp(norm2 x).
#pragma once

#include "qkv/nn/attention.h"
#include "qkv/nn/mlp.h"

namespace qkv::nn {

template <typename T>
struct Block {
  Norm<T> norm1;
  AttentionLayer<T> attention;
  Tensor<T> scale1;  // LayerScale (Touvron et al. 2021) [D], or empty
  Norm<T> norm2;
  Mlp<T> mlp;
  Tensor<T> scale2;
};

/// Updates the first `rows` tokens of each sequence of x: [B, N, D], dense, or with context.last_rows the last; the
/// others only serve as keys and values. rows = N is the whole block. Fewer are exact for them, and all that a model
/// needs whose last block is read at its class token alone, or of which the next token is asked.
template <typename T>
void BlockForward(View<T> x, const Block<T>& block, int64_t rows, Arena& arena,
                  const AttentionContext<T>& context = {});

/// The attention weights of the block alone. x: [B, N, D], what enters the block.
template <typename T>
void BlockWeights(View<const T> x, const Block<T>& block, Arena& arena, const AttentionContext<T>& context);

}  // namespace qkv::nn
