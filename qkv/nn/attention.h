// The attention layer, forward: projections, heads, scaled dot-product attention, output projection.
// What attention itself is stands in attention/attention.h. One kind of projection so far: separate W_Q, W_K, W_V.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "qkv/attention/attention.h"
#include "qkv/core/arena.h"
#include "qkv/nn/linear.h"
#include "qkv/nn/norm.h"

namespace qkv::nn {

/// W_K and W_V head by head, for the order that projects queries and sums instead of keys and values.
template <typename T>
struct AbsorbedHeads {
  std::vector<Linear<T>> key;    // W_Kᵀ of a head, [D, E]; a bias of keys cancels in the softmax
  std::vector<Linear<T>> value;  // W_V of a head, [E, D]
};

template <typename T>
struct AttentionLayer {
  bool bf16 =
      false;  // scores and sums may be multiplied in bfloat16, see attention::Options; not in the absorbed order
  int64_t heads = 1;
  int64_t head_width = 0;        // E
  Linear<T> query;               // [H·E, D]
  Linear<T> key_value;           // [2·H·E, D]: the keys of all heads, then the values
  AbsorbedHeads<T> absorbed;     // the same once more, for layers of which few rows are read; or empty
  Norm<T> query_norm, key_norm;  // over each head's E (Dehghani et al. 2023), or empty
  Norm<T> output_norm;           // over the joined heads, before the projection (timm's scale_attn_norm), or empty
  Linear<T> projection;          // [D, H·E], or empty: the joined heads are the output
};

/// Asks for the attention weights of some query rows; they are computed beside the fused path, which stays fused.
/// They are written to `out`, or, where that is empty, shown to `visit` a few rows at a time, so that nobody needs
/// memory for all of them.
template <typename T>
struct WeightsRequest {
  int64_t row_begin = 0, row_end = 0;
  View<T> out = {};  // [B, heads, row_end − row_begin, N_k]
  /// weights: [B, heads, rows, N_k], dense, of the queries `row` and following; gone after the call.
  std::function<void(int64_t row, View<const T> weights)> visit;
  int64_t head_begin = 0, head_end = 0;  // an end of 0: all heads
};

/// out = residual + scale · projection(attention(x_query, x)).
/// x_query: [B, N_q, D]; x: [B, N, D]; out, residual: [B, N_q, D] (residual may be out); dense rows, any batch stride.
/// Scores are scaled by 1 / sqrt(E). Scratch comes from `arena`. Where the layer has absorbed heads and no weights are
/// requested, attention::CheapestPlan decides the order. Where out is empty, the requested weights are all that is
/// computed.
template <typename T>
void AttentionForward(const Input<T>& x_query, const Input<T>& x, const AttentionLayer<T>& layer,
                      const Tensor<T>* scale, View<const T> residual, View<T> out, Arena& arena,
                      std::span<const WeightsRequest<T>> requests = {});

}  // namespace qkv::nn
