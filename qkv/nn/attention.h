// The attention layer, forward: projections, heads, scaled dot-product attention, output projection.
// What attention itself is stands in attention/attention.h. One kind of projection so far: separate W_Q, W_K, W_V.
#pragma once

#include <cstdint>
#include <span>

#include "qkv/attention/attention.h"
#include "qkv/core/arena.h"
#include "qkv/nn/linear.h"
#include "qkv/nn/norm.h"

namespace qkv::nn {

template <typename T>
struct AttentionLayer {
  int64_t heads = 1;
  int64_t head_width = 0;        // E
  Linear<T> query;               // [H·E, D]
  Linear<T> key_value;           // [2·H·E, D]: the keys of all heads, then the values
  Norm<T> query_norm, key_norm;  // over each head's E (Dehghani et al. 2023), or empty
  Norm<T> output_norm;           // over the joined heads, before the projection (timm's scale_attn_norm), or empty
  Linear<T> projection;          // [D, H·E], or empty: the joined heads are the output
};

/// Asks for the attention weights of some query rows; they are computed beside the fused path, which stays fused.
template <typename T>
struct WeightsRequest {
  int64_t row_begin = 0, row_end = 0;
  View<T> out;  // [B, H, row_end − row_begin, N_k]
};

/// out = residual + scale · projection(attention(x_query, x)).
/// x_query: [B, N_q, D]; x: [B, N, D]; out, residual: [B, N_q, D] (residual may be out); dense rows, any batch stride.
/// Scores are scaled by 1 / sqrt(E). Scratch comes from `arena`.
template <typename T>
void AttentionForward(const Input<T>& x_query, const Input<T>& x, const AttentionLayer<T>& layer,
                      const Tensor<T>* scale, View<const T> residual, View<T> out, Arena& arena,
                      std::span<const WeightsRequest<T>> requests = {});

}  // namespace qkv::nn
