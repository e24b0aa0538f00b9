// Pooling in training, from tokens to one vector per image: gradients of mean and maximum, and attention with a learned
// query, forward and backward. Not here: the forward passes of mean and maximum (nn/pool.h).
#pragma once

#include "qkv/core/arena.h"
#include "qkv/nn/training/mlp.h"

namespace qkv::nn {

/// Gradient of MeanPool, written to dx or with `add` added to it; tokens before `begin` have zero gradient. dout:
/// [B, D], strided rows; dx: [B, N, D], any stride between images and tokens.
template <typename T>
void MeanPoolBackward(View<const T> dout, int64_t begin, View<T> dx, bool add);

/// Gradient of MaxPool, written to dx or with `add` added to it. Equal maxima share the gradient evenly, as in PyTorch.
/// x: [B, N, D], input of MaxPool.
template <typename T>
void MaxPoolBackward(View<const T> x, int64_t begin, View<const T> dout, View<T> dx, bool add);

/// Weights (T const), or gradients with the same layout. See AttentionPool.
template <typename T>
struct AttentionPoolParameters {
  View<T> latent;                  // [D], the query before its projection
  LinearParameters<T> query;       // [D, D]
  LinearParameters<T> key_value;   // [2·D, D]: keys of all heads, then values
  LinearParameters<T> projection;  // [D, D]
  NormParameters<T> norm;          // [D]
  MlpParameters<T> mlp;
};

struct AttentionPoolSettings {
  int64_t heads = 1;  // each with D / heads features
  MlpSettings mlp;    // its precision applies to all products
};

/// Kept by the forward pass, in the arena passed to it. n = N − begin.
template <typename T>
struct AttentionPoolCache {
  View<T> query;            // [1, D]
  View<T> key_value;        // [B, n, 2·D]
  View<T> joined, lse;      // output of attention, [B, D], and [B, H, 1]
  View<T> y;                // [B, D], after the projection
  View<T> normed, moments;  // [B, D], [B, 2]
  MlpCache<T> mlp;
};

/// y = attention(latent, tokens [begin, N)); out = y + mlp(norm y). x: [B, N, D], any stride between images; out:
/// [B, D], strided rows. The cache lives in `arena` until the caller's scope ends. Throws Error if the shapes do not
/// fit.
template <typename T>
void AttentionPoolForward(View<const T> x, int64_t begin, const AttentionPoolParameters<const T>& p,
                          const AttentionPoolSettings& settings, View<T> out, AttentionPoolCache<T>& cache,
                          Arena& arena);

/// Adds the gradients of the weights to d; writes dx [B, N, D], or with `add` adds to it. Overwrites cache.mlp. Same
/// bits for any number of threads.
template <typename T>
void AttentionPoolBackward(View<const T> x, int64_t begin, const AttentionPoolParameters<const T>& p,
                           const AttentionPoolSettings& settings, const AttentionPoolCache<T>& cache,
                           View<const T> dout, View<T> dx, bool add, const AttentionPoolParameters<T>& d, Arena& arena);

}  // namespace qkv::nn
