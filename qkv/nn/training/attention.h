// The attention layer in training, forward and backward, for all kinds, with weights as stored. Not here: inference
// with packed weights (nn/attention.h), and softmax attention with its gradient (attention/attention.h).
#pragma once

#include <cstdint>

#include "qkv/core/arena.h"
#include "qkv/core/tensor.h"
#include "qkv/nn/attention.h"
#include "qkv/nn/rotary.h"
#include "qkv/nn/training/difference.h"
#include "qkv/nn/training/linear.h"
#include "qkv/nn/training/norm.h"
#include "qkv/nn/training/open_attention.h"

namespace qkv::nn {

/// Weights (T const), or gradients with the same layout. What the kind lacks is empty. Names follow docs/kinds.md.
template <typename T>
struct AttentionParameters {
  LinearParameters<T> query_key_value;     // [(H + 2·G)·E, D], kSeparate; in cross-attention without queries
  LinearParameters<T> query, key;          // [H·r, D], [G·r, D]; only key if W_Q = W_K
  LinearParameters<T> value;               // [G·E, D], if values are not keys
  View<T> merged;                          // M of each head, [H, D, D]
  View<T> key_term;                        // u of each head, [H, D], or empty
  View<T> eigenvalues;                     // Λ of each head, [H, r]
  View<T> bandwidth;                       // h of each head, [H]; values below kLeastBandwidth count as kLeastBandwidth
  View<T> query_places, key_places;        // [H, N, r] each
  View<T> score_bias;                      // added to the scores, [B|1, H|1, rows|1, N], or empty
  View<T> bias_table;                      // for inference only, [bias_rows, H], or empty
  View<T> sinks;                           // [H], or empty
  LambdaVectors<T> lambda;                 // [e] each, or empty
  NormParameters<T> head_norm;             // of the difference of two maps, over each head's E, or empty
  NormParameters<T> query_norm, key_norm;  // over each head's and map's features, or empty
  NormParameters<T> output_norm;           // over the joined heads, before the projection, or empty
  LinearParameters<T> projection;          // [D, H·E]; empty: the output is the joined heads
};

/// Configuration of the layer, and the options of this step.
struct AttentionSettings {
  AttentionConfig config;
  TokenGrid grid;  // for kGaussian

  // Rotates queries and keys by their positions, or null. Requires AllowsRotary(kind).
  const RotaryTable* rotary = nullptr;

  bool causal = false;              // query i sees keys j <= i
  View<const bool> mask;            // true where attention is allowed, [B|1, H|1, rows|1, N], or empty
  View<const int64_t> key_lengths;  // [B]: number of valid keys, from the first; the others must be finite. Or empty
  simd::Precision precision = simd::Precision::kFloat32;  // of all products, see simd::MatMul and attention::Options
  double dropout = 0;  // of attention weights; depends only on seed, image, head, query and key
  uint64_t seed = 0;
  int64_t first_image = 0;  // index in the step of image 0 of x

  // Takes the place of softmax attention in an experiment, or null. Float only, without masks, dropout, biases of the
  // scores, sinks and windows; all tokens are queries.
  OpenAttention* open = nullptr;
  int64_t block = 0;  // number of the layer's block, passed to `open`
};

/// Outputs of the linear layers, or their gradients, as matrices. `all` is the output of one product; some of the other
/// members are columns of it.
template <typename T>
struct ProjectedTokens {
  View<T> all;    // [B·N, …], kSeparate
  View<T> query;  // [B·rows, H·r]; merged: [B·rows, H·D]
  View<T> key;    // [B·N, G·r]
  View<T> value;  // [B·N, G·E]
};

/// Kept by the forward pass, in the arena passed to it.
template <typename T>
struct AttentionCache {
  View<const T> x;        // [B·N, D], owned by the caller: input of keys and values
  View<const T> x_query;  // [B·rows, D]
  ProjectedTokens<T> projected;
  View<const T> raw_query;             // [B·rows, H·r], output of the linear layer; may be the keys
  View<T> query_moments, key_moments;  // [H, B·rows, 2], [G, B·N, 2]
  View<T> bandwidth, places;           // [H], [2, H, N, r]
  View<const T> query, key, value;     // operands of attention: [B, H, rows|N, r|E]
  View<T> joined;                      // [B·rows, H·E], result of attention
  View<T> lse[2];                      // of each map, [B, H, rows]
  DifferenceCache<T> difference;       // of two maps
  View<T> normed, output_moments;      // [B·rows, H·E], [B·rows, 2]
};

/// y = residual + projection(attention of the first `rows` tokens of each image to all its tokens).
/// x: [B, N, D], dense; y, residual: [B·rows, D] with strided rows; residual may be empty, or y. x, unchanged, and the
/// memory of `cache` in `arena` must live until the backward pass. Throws Error if the shapes do not fit.
template <typename T>
void AttentionForward(View<const T> x, int64_t rows, const AttentionParameters<const T>& p,
                      const AttentionSettings& settings, View<const T> residual, View<T> y, AttentionCache<T>& cache,
                      Arena& arena);

/// Adds the gradients of the weights to d; overwrites dx. dy: [B·rows, D] with strided rows; dx: [B, N, D], dense; the
/// gradient through the residual is not part of dx. Same bits for any number of threads.
template <typename T>
void AttentionBackward(int64_t rows, const AttentionParameters<const T>& p, const AttentionSettings& settings,
                       const AttentionCache<T>& cache, View<const T> dy, View<T> dx, const AttentionParameters<T>& d,
                       Arena& arena);

/// Cross-attention: y = residual + projection(attention of queries from x to keys and values from `source`). x:
/// [B, rows, D]; source: [B, N, D_source]; dense. Only for kinds with keys from tokens; without rotary positions.
/// Otherwise as AttentionForward.
template <typename T>
void CrossAttentionForward(View<const T> x, View<const T> source, const AttentionParameters<const T>& p,
                           const AttentionSettings& settings, View<const T> residual, View<T> y,
                           AttentionCache<T>& cache, Arena& arena);

/// As AttentionBackward, but overwrites dx, [B, rows, D], and adds to dsource, [B, N, D_source], dense.
template <typename T>
void CrossAttentionBackward(const AttentionParameters<const T>& p, const AttentionSettings& settings,
                            const AttentionCache<T>& cache, View<const T> dy, View<T> dx, View<T> dsource,
                            const AttentionParameters<T>& d, Arena& arena);

}  // namespace qkv::nn
