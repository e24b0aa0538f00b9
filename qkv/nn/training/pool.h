// From tokens to one vector an image in training: the gradients of mean and maximum, whose forward passes are pool.h,
// and attention with a learned query, forward and backward.
#pragma once

#include "qkv/core/arena.h"
#include "qkv/nn/training/mlp.h"

namespace qkv::nn {

/// dx = or += the gradient of MeanPool: what tokens [begin, N) get of dout; those before get nothing, or 0.
/// dout: [B, D], strided rows; dx: [B, N, D], any distance from image to image and token to token.
template <typename T>
void MeanPoolBackward(View<const T> dout, int64_t begin, View<T> dx, bool add);

/// dx = or += the gradient of MaxPool: the greatest entry gets it; equal ones share it evenly, as in PyTorch.
/// x: [B, N, D], what MaxPool read.
template <typename T>
void MaxPoolBackward(View<const T> x, int64_t begin, View<const T> dout, View<T> dx, bool add);

/// Weights (T const) or, in the same places, their gradients. See AttentionPool.
template <typename T>
struct AttentionPoolParameters {
  View<T> latent;                  // the query before its projection, D numbers
  LinearParameters<T> query;       // [D, D]
  LinearParameters<T> key_value;   // [2·D, D], the keys of all heads, then the values
  LinearParameters<T> projection;  // [D, D]
  NormParameters<T> norm;          // [D]
  MlpParameters<T> mlp;
};

struct AttentionPoolSettings {
  int64_t heads = 1;  // of D / heads features
  MlpSettings mlp;    // its precision is that of all products
};

/// What the forward pass keeps, in the arena that it was given. n = N − begin.
template <typename T>
struct AttentionPoolCache {
  View<T> query;            // [1, D]
  View<T> key_value;        // [B, n, 2·D]
  View<T> joined, lse;      // [B, D], [B, H, 1]: what attention leaves
  View<T> y;                // [B, D], after the projection
  View<T> normed, moments;  // [B, D], [B, 2]
  MlpCache<T> mlp;
};

/// y = attention(latent, tokens [begin, N)); out = y + mlp(norm y). x: [B, N, D], any distance from image to image;
/// out: [B, D], strided rows. The cache lives in `arena` until the caller's scope ends.
/// Throws Error when the shapes do not fit.
template <typename T>
void AttentionPoolForward(View<const T> x, int64_t begin, const AttentionPoolParameters<const T>& p,
                          const AttentionPoolSettings& settings, View<T> out, AttentionPoolCache<T>& cache,
                          Arena& arena);

/// Adds the gradients of the weights to d; writes dx [B, N, D], or adds to it. Uses up cache.mlp.
/// The same bits for any number of threads.
template <typename T>
void AttentionPoolBackward(View<const T> x, int64_t begin, const AttentionPoolParameters<const T>& p,
                           const AttentionPoolSettings& settings, const AttentionPoolCache<T>& cache,
                           View<const T> dout, View<T> dx, bool add, const AttentionPoolParameters<T>& d, Arena& arena);

}  // namespace qkv::nn
