// Forward pass of the attention layer: projections, heads, scaled dot-product attention, output projection, for each
// AttentionKind. Not here: softmax attention itself (attention/attention.h) and training
// (training/attention.h).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "qkv/attention/attention.h"
#include "qkv/core/arena.h"
#include "qkv/nn/block_config.h"
#include "qkv/nn/cross_weights.h"
#include "qkv/nn/key_value_cache.h"
#include "qkv/nn/linear.h"
#include "qkv/nn/norm.h"
#include "qkv/nn/probe.h"
#include "qkv/nn/rotary.h"
#include "qkv/nn/weights_request.h"

namespace qkv::nn {

/// W_K and W_V of each head, for the absorbed order, which projects queries and sums instead of keys and values.
template <typename T>
struct AbsorbedHeads {
  std::vector<Linear<T>> key;    // W_Kᵀ of a head, [D, r]; empty if scores do not use keys W_K x
  std::vector<Linear<T>> value;  // W_V of a head, [E, D]
};

/// Weights for inference. Products that the kind lacks, or that another product computes, are empty.
template <typename T>
struct AttentionLayer {
  bool bf16 = false;  // scores and sums may use bfloat16, see attention::Options; never in the absorbed order
  AttentionKind kind = AttentionKind::kSeparate;
  int64_t heads = 1;
  int64_t head_width = 0;                       // E, of values
  int64_t qk_width = 0;                         // r, of queries and keys; 0: E
  int64_t key_heads = 0;                        // G, of keys and values; 0: H
  int64_t window_left = -1, window_right = -1;  // see AttentionConfig
  // [H·r, D]; merged: Mᵀ of each head, and u, [H·D, D]. If W_Q = W_K: only for the absorbed order. Empty if
  // query_key_value makes the queries.
  Linear<T> query;
  // One product for queries, keys and values of all heads, [(H + 2·G)·E, D]. Without the rows of queries if W_Q = W_K
  // or `query` makes them; without those of values (each head then has width r) if W_K = W_V or `value` makes them.
  Linear<T> query_key_value;
  Linear<T> value;               // [G·E, D], if values are not keys and keys have another width or do not exist
  Tensor<T> eigenvalues;         // Λ of each head, [H, r]
  Tensor<T> sinks;               // score of each head's sink, [H], or empty; see attention::Options
  Tensor<T> bandwidth;           // h of each head, [H], at least kLeastBandwidth
  Tensor<T> places;              // q, then k, of each head and position of the trained grid, [2, H, N, r]
  AbsorbedHeads<T> absorbed;     // W_K and W_V again, for layers with `query` of which few rows are read; or empty
  Norm<T> query_norm, key_norm;  // over each head's and map's features (Dehghani et al. 2023), or empty
  Tensor<T> lambda;              // factor of the second map, which is subtracted from the first, [1]; empty: one map
  Norm<T> head_norm;             // of the difference, over each head's E, times 1 − LambdaInit; or empty
  Norm<T> output_norm;           // over the joined heads, before the projection (timm's scale_attn_norm), or empty
  Linear<T> projection;          // [D, H·E]; empty: the output is the joined heads

  int64_t query_width() const { return qk_width > 0 ? qk_width : head_width; }
  int64_t kv_heads() const { return key_heads > 0 ? key_heads : heads; }
  int64_t maps() const { return lambda.empty() ? 1 : 2; }  // see AttentionConfig::maps
  bool queries_with_keys() const { return HasQueriesAndKeys(kind) && query.empty(); }
};

/// Options of one attention pass.
template <typename T>
struct AttentionContext {
  std::span<const WeightsRequest<T>> requests = {};
  View<const T> places = {};            // positional kinds: q, then k, of each position, [2, H, N, r]
  bool causal = false;                  // query i sees keys j <= i
  const RotaryTable* rotary = nullptr;  // rotates queries and keys by their positions, or null; see AllowsRotary
  // Requires causal. The tokens of x are appended to those of each cached sequence, [B], and N counts all tokens of the
  // longest, cached ones included. Only rotary or no positions of the layer's own allow unequal lengths.
  CachedRows<T> cache = {};
  bool last_rows = false;  // if there are fewer queries than tokens, they belong to the last tokens, not the first
  // Bias of the scores, and mask of allowed keys: [B|1, H|1, N_q|1, N], or empty. See attention::Options. Layers with
  // folded value biases (model::BuildOptions) assume that every query sees a key.
  View<const T> bias = {};
  View<const bool> mask = {};
  View<const int64_t> key_lengths = {};  // [B]: number of valid keys, out of N, of each batch entry; or empty
  // Blocks with cross-attention: the filled cache of that layer, and the weights that are requested of it. If it has
  // fewer entries than x, equally many sequences that follow each other read one, with a token each, as in a beam
  // search.
  CachedRows<T> source = {};
  std::span<const WeightsRequest<T>> source_requests = {};
  // Cross-attention in an experiment: what replaces its softmax, or null; the number of the layer's block, which the
  // rule uses to name heads; and the position of each token of x in its sequence, [B, N].
  const CrossWeights* cross_weights = nullptr;
  int64_t block = 0;
  View<const int64_t> positions = {};
  // Sees the activations of the block, and may change them, or null; see probe.h. `block` names them.
  Probe<T>* probe = nullptr;
};

/// out = residual + scale · projection(attention(x_query, x)).
/// x_query: [B, N_q, D]; x: [B, N, D]; out, residual: [B, N_q, D] (residual may be out); dense rows, any batch stride.
/// x_query must be the first (or last, see AttentionContext) rows of x if one product makes queries and keys, or if the
/// layer is causal or rotary. Scratch comes from `arena`. If the layer has absorbed heads and no weights are
/// requested, attention::CheapestPlan decides the order. If out is empty, only the requested weights are computed;
/// values and unrequested queries only if one product makes them with the keys.
template <typename T>
void AttentionForward(const Input<T>& x_query, const Input<T>& x, const AttentionLayer<T>& layer,
                      const Tensor<T>* scale, View<const T> residual, View<T> out, Arena& arena,
                      const AttentionContext<T>& context = {});

/// Cross-attention: writes the keys and values of `source`, [B, N, D_source], to `cache`, whose capacity is at least N.
/// lengths: [B], the number of valid tokens of each entry, or empty for N. The layer must have a separate `query`.
/// Throws Error if the shapes do not fit.
template <typename T>
void CrossAttentionFill(const Input<T>& source, View<const int64_t> lengths, const AttentionLayer<T>& layer,
                        KeyValueCache<T>& cache, Arena& arena);

/// out = residual + scale · projection(attention(x, tokens of `source`)), with queries from x, [B, N_q, D]. Decoding
/// calls CrossAttentionFill once and this function for each token. From `context`, only requests, bias, mask and the
/// replacement of the softmax are used. Requested weights are those in use; with replaced ones, all are in memory at a
/// time.
template <typename T>
void CrossAttentionForward(const Input<T>& x, const CachedRows<T>& source, const AttentionLayer<T>& layer,
                           const Tensor<T>* scale, View<const T> residual, View<T> out, Arena& arena,
                           const AttentionContext<T>& context = {});

/// The least h, in patches. At this h a patch attends only to itself, because exp(−5e5) is 0; much below it, 1/h²
/// overflows.
inline constexpr double kLeastBandwidth = 1e-3;

}  // namespace qkv::nn
