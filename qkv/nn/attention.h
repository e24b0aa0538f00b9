// The attention layer, forward: projections, heads, scaled dot-product attention, output projection; and the kinds of
// it, which differ in what scores and values are made of. What attention itself is stands in attention/attention.h.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "qkv/attention/attention.h"
#include "qkv/core/arena.h"
#include "qkv/nn/block_config.h"
#include "qkv/nn/linear.h"
#include "qkv/nn/norm.h"
#include "qkv/nn/rotary.h"

namespace qkv::nn {

/// W_K and W_V head by head, for the order that projects queries and sums instead of keys and values.
template <typename T>
struct AbsorbedHeads {
  std::vector<Linear<T>> key;    // W_Kᵀ of a head, [D, r]; none where scores are not of keys W_K x
  std::vector<Linear<T>> value;  // W_V of a head, [E, D]
};

/// Products that a kind has not got, or that are another's, are empty.
template <typename T>
struct AttentionLayer {
  bool bf16 =
      false;  // scores and sums may be multiplied in bfloat16, see attention::Options; not in the absorbed order
  AttentionKind kind = AttentionKind::kSeparate;
  int64_t heads = 1;
  int64_t head_width = 0;                       // E, of values
  int64_t qk_width = 0;                         // r, of queries and keys; 0 means E
  int64_t key_heads = 0;                        // G, of keys and values; 0 means H
  int64_t window_left = -1, window_right = -1;  // see AttentionConfig
  // [H·r, D]; merged: Mᵀ of each head, and u, [H·D, D]. Where queries are keys: only for the absorbed order. Empty
  // where the next makes them.
  Linear<T> query;
  // In one product the queries of all heads, their keys and their values, [(H + 2·G)·E, D]: without queries where these
  // are keys or `query` makes them, without values (so that a row is of r) where these are keys or `value` makes them.
  Linear<T> query_key_value;
  Linear<T> value;               // [G·E, D], where values are not keys, and keys are of another width or none
  Tensor<T> eigenvalues;         // Λ of each head, [H, r]
  Tensor<T> bandwidth;           // h of each head, [H], kLeastBandwidth at least
  Tensor<T> places;              // q, then k, of each head and token of the trained grid, [2, H, N, r]
  AbsorbedHeads<T> absorbed;     // the same once more, for layers with `query` of which few rows are read; or empty
  Norm<T> query_norm, key_norm;  // over each head's r (Dehghani et al. 2023), or empty
  Norm<T> output_norm;           // over the joined heads, before the projection (timm's scale_attn_norm), or empty
  Linear<T> projection;          // [D, H·E], or empty: the joined heads are the output

  int64_t query_width() const { return qk_width > 0 ? qk_width : head_width; }
  int64_t kv_heads() const { return key_heads > 0 ? key_heads : heads; }
  bool queries_with_keys() const { return HasQueriesAndKeys(kind) && query.empty(); }
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

/// Keys and values of the tokens of a sequence: what a causal layer keeps for the tokens that follow, and
/// cross-attention of its source.
template <typename T>
struct KeyValueCache {
  /// For the layer, `capacity` tokens of width D in each of B sequences, none of them there yet.
  KeyValueCache(const AttentionLayer<T>& layer, int64_t B, int64_t D, int64_t capacity, bool rotary);

  Tensor<T> key;    // [B, G, capacity, r]; merged: tokens, [B, 1, capacity, D]; empty where places or values are keys
  Tensor<T> value;  // [B, G, capacity, E]
  int64_t tokens = 0;
};

/// What an attention layer is told beside its tokens.
template <typename T>
struct AttentionContext {
  std::span<const WeightsRequest<T>> requests = {};
  View<const T> places = {};            // for kinds whose scores come from places: their q, then k, [2, H, N, r]
  bool causal = false;                  // query i sees keys j <= i
  const RotaryTable* rotary = nullptr;  // turns queries and keys by their places, or null; see AllowsRotary
  // Causal only: x are the tokens behind those of the cache, which they join. N is the number of all tokens then.
  KeyValueCache<T>* cache = nullptr;
  bool last_rows = false;  // fewer queries than tokens are of the last tokens, not of the first
  // Added to the scores, and where attention is allowed: [B|1, H|1, N_q|1, N], or empty. See attention::Options.
  View<const T> bias = {};
  View<const bool> mask = {};
  View<const int64_t> key_lengths = {};  // [B]: how many of its N keys an entry has; or empty
  // Blocks with cross-attention only: the filled cache of their layer, and how many of its tokens an entry has.
  const KeyValueCache<T>* source = nullptr;
  View<const int64_t> source_lengths = {};
};

/// out = residual + scale · projection(attention(x_query, x)).
/// x_query: [B, N_q, D]; x: [B, N, D]; out, residual: [B, N_q, D] (residual may be out); dense rows, any batch stride.
/// x_query must be the first (or last, see AttentionContext) rows of x if one product makes queries and keys, or if the
/// layer is causal or rotary. Scratch comes from `arena`. If the layer has absorbed heads and no weights are requested,
/// attention::CheapestPlan decides the order. If out is empty, only the requested weights are computed; values and
/// unrequested queries only if one product makes them with the keys.
template <typename T>
void AttentionForward(const Input<T>& x_query, const Input<T>& x, const AttentionLayer<T>& layer,
                      const Tensor<T>* scale, View<const T> residual, View<T> out, Arena& arena,
                      const AttentionContext<T>& context = {});

/// Cross-attention: the keys and values of `source`, [B, N, D_source], into `cache`, whose capacity is N at least.
/// layer: with `query` apart from the product of keys and values. Throws Error when the shapes do not fit.
template <typename T>
void CrossAttentionFill(const Input<T>& source, const AttentionLayer<T>& layer, KeyValueCache<T>& cache, Arena& arena);

/// out = residual + scale · projection(attention(x, the tokens of `source`)): queries of x, [B, N_q, D]. Decoding calls
/// CrossAttentionFill once and this for each token. Of `context` requests, bias, mask and key_lengths count.
template <typename T>
void CrossAttentionForward(const Input<T>& x, const KeyValueCache<T>& source, const AttentionLayer<T>& layer,
                           const Tensor<T>* scale, View<const T> residual, View<T> out, Arena& arena,
                           const AttentionContext<T>& context = {});

/// The least h, in patches: beside its own a patch sees nothing by then, exp(−5e5) is 0; far below it 1/h² is infinite.
inline constexpr double kLeastBandwidth = 1e-3;

/// Scores −‖p_i − p_j‖² / 2h² as products q_i·k_j, for `prefix` tokens without a place and the grid, row
/// by row: places [2, H, prefix + grid_height·grid_width, kGaussianFeatures]; bandwidth: h of each head, [H].
template <typename T>
void GaussianPlaces(View<const T> bandwidth, int64_t prefix, int64_t grid_height, int64_t grid_width, View<T> places);

}  // namespace qkv::nn
