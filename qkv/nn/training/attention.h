// The attention layer in training, forward and backward, all kinds of it, with weights as they are stored. What
// inference makes of them is attention.h; attention itself and its gradient are attention/attention.h.
#pragma once

#include <cstdint>

#include "qkv/core/arena.h"
#include "qkv/core/tensor.h"
#include "qkv/nn/attention.h"
#include "qkv/nn/rotary.h"
#include "qkv/nn/training/linear.h"
#include "qkv/nn/training/norm.h"

namespace qkv::nn {

/// Weights (T const) or, in the same places, their gradients. What a kind has not got is empty. The names are those of
/// docs/kinds.md.
template <typename T>
struct AttentionParameters {
  LinearParameters<T> query_key_value;     // [(H + 2·G)·E, D] of kSeparate; in cross-attention without queries
  LinearParameters<T> query, key;          // [H·r, D], [G·r, D]; only key where queries are keys
  LinearParameters<T> value;               // [G·E, D], where values are not keys
  View<T> merged;                          // M of each head, [H, D, D]
  View<T> key_term;                        // u of each head, [H, D], or empty
  View<T> eigenvalues;                     // Λ of each head, [H, r]
  View<T> bandwidth;                       // h of each head, [H]; less than kLeastBandwidth counts as that
  View<T> query_places, key_places;        // [H, N, r] each
  View<T> score_bias;                      // added to the scores, [B|1, H|1, rows|1, N], or empty
  NormParameters<T> query_norm, key_norm;  // over each head's r, or empty
  NormParameters<T> output_norm;           // over the joined heads, before the projection, or empty
  LinearParameters<T> projection;          // [D, H·E], or empty: the joined heads are the output
};

/// What an attention layer is, and what it is told about this step.
struct AttentionSettings {
  AttentionConfig config;
  TokenGrid grid;  // for kGaussian

  // Turns queries and keys by their places, or null. Not where keys are tokens themselves, or scores come from places.
  const RotaryTable* rotary = nullptr;

  bool causal = false;              // query i sees keys j <= i
  View<const bool> mask;            // true where attention is allowed, [B|1, H|1, rows|1, N], or empty
  View<const int64_t> key_lengths;  // [B]: an image has only its first keys; those behind must be finite. Or empty
  simd::Precision precision = simd::Precision::kFloat32;  // of all products, see simd::MatMul and attention::Options
  double dropout = 0;  // of attention weights; which, is a function of seed, image, head, query and key alone
  uint64_t seed = 0;
  int64_t first_image = 0;  // which image of the step the first of x is
};

/// What linear layers make of the tokens, or its gradient, as matrices. `all` is one product of which several of the
/// others are columns.
template <typename T>
struct ProjectedTokens {
  View<T> all;    // [B·N, …], kSeparate
  View<T> query;  // [B·rows, H·r]; merged: [B·rows, H·D]
  View<T> key;    // [B·N, G·r]
  View<T> value;  // [B·N, G·E]
};

/// What the forward pass keeps. Memory of the arena that it was given.
template <typename T>
struct AttentionCache {
  View<const T> x;        // [B·N, D], the caller's: what keys and values are made of
  View<const T> x_query;  // [B·rows, D]
  ProjectedTokens<T> projected;
  View<const T> raw_query;             // [B·rows, H·r], as the linear layer made them: perhaps keys
  View<T> query_moments, key_moments;  // [H, B·rows|N, 2]
  View<T> bandwidth, places;           // [H], [2, H, N, r]
  View<const T> query, key, value;     // what attention multiplied: [B, H, rows|N, r|E]
  View<T> joined;                      // [B·rows, H·E], its result
  View<T> lse;                         // [B, H, rows]
  View<T> normed, output_moments;      // [B·rows, H·E], [B·rows, 2]
};

/// y = residual + projection(attention of the first `rows` tokens of each image to all of them).
/// x: [B, N, D], dense; y, residual: [B·rows, D] with strided rows; residual may be empty, or y.
/// What `cache` points to, in `arena`, must stay until the backward pass, and x must be there with the same values
/// then. Throws Error when shapes do not fit.
template <typename T>
void AttentionForward(View<const T> x, int64_t rows, const AttentionParameters<const T>& p,
                      const AttentionSettings& settings, View<const T> residual, View<T> y, AttentionCache<T>& cache,
                      Arena& arena);

/// Adds the gradients of the weights to d; overwrites dx. dy: [B·rows, D] with strided rows, without the residual's
/// part; dx: [B, N, D], dense. The same bits for any number of threads.
template <typename T>
void AttentionBackward(int64_t rows, const AttentionParameters<const T>& p, const AttentionSettings& settings,
                       const AttentionCache<T>& cache, View<const T> dy, View<T> dx, const AttentionParameters<T>& d,
                       Arena& arena);

/// Cross-attention: y = residual + projection(attention of the queries of x to the keys and values of `source`).
/// x: [B, rows, D]; source: [B, N, D_source]; dense. Kinds with keys of tokens only; without rotary positions. The rest
/// as AttentionForward.
template <typename T>
void CrossAttentionForward(View<const T> x, View<const T> source, const AttentionParameters<const T>& p,
                           const AttentionSettings& settings, View<const T> residual, View<T> y,
                           AttentionCache<T>& cache, Arena& arena);

/// As AttentionBackward; overwrites dx, [B, rows, D], and adds to dsource, [B, N, D_source], dense.
template <typename T>
void CrossAttentionBackward(const AttentionParameters<const T>& p, const AttentionSettings& settings,
                            const AttentionCache<T>& cache, View<const T> dy, View<T> dx, View<T> dsource,
                            const AttentionParameters<T>& d, Arena& arena);

}  // namespace qkv::nn
