// Forward pass of pooling, from tokens to one vector per image: mean, maximum, or attention with a learned query. Not
// here: training (training/pool.h).
#pragma once

#include "qkv/core/arena.h"
#include "qkv/nn/attention.h"
#include "qkv/nn/mlp.h"

namespace qkv::nn {

/// out[b] = mean over tokens [begin, N) of x[b]. x: [B, N, D], out: [B, D] with strided rows.
template <typename T>
void MeanPool(View<const T> x, int64_t begin, View<T> out);

/// out[b] = maximum over tokens [begin, N) of each feature. Shapes as in MeanPool.
template <typename T>
void MaxPool(View<const T> x, int64_t begin, View<T> out);

/// Attention pooling ("map": Lee et al. 2019, Zhai et al. 2022): one learned query attends to all tokens.
template <typename T>
struct AttentionPool {
  Tensor<T> latent;             // [1, D], the query before its projection
  AttentionLayer<T> attention;  // with an output projection
  Norm<T> norm;
  Mlp<T> mlp;
};

/// y = attention(latent, tokens [begin, N)); out = y + mlp(norm y). x: [B, N, D], out: [B, D], dense.
template <typename T>
void AttentionPoolForward(View<const T> x, int64_t begin, const AttentionPool<T>& pool, View<T> out, Arena& arena);

}  // namespace qkv::nn
