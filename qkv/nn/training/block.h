// A Transformer block in training, forward and backward: x += drop(ls · layer(norm x)) for attention, optional
// cross-attention, and MLP; or x = norm(x + drop(ls · layer(x))). drop is stochastic depth. Not here: inference
// (nn/block.h).
#pragma once

#include "qkv/nn/training/attention.h"
#include "qkv/nn/training/mlp.h"

namespace qkv::nn {

/// Weights (T const), or gradients with the same layout.
template <typename T>
struct BlockParameters {
  NormParameters<T> norm1;
  AttentionParameters<T> attention;
  View<T> scale1;                // LayerScale (Touvron et al. 2021) [D], or empty
  NormParameters<T> norm_cross;  // empty without cross-attention
  AttentionParameters<T> cross;
  View<T> scale_cross;
  NormParameters<T> norm2;
  MlpParameters<T> mlp;
  View<T> scale2;
};

/// Configuration of the block, and the options of this step.
struct BlockSettings {
  AttentionSettings attention;  // seed and first_image determine all random numbers but those of cross.seed
  AttentionSettings cross;      // of cross-attention; its key lengths and mask are those of the source
  MlpSettings mlp;
  NormPlace norm_place = NormPlace::kBefore;
  double dropout = 0;    // probability that an entry of a layer's output becomes 0
  double drop_path = 0;  // probability that a layer adds nothing to an image (stochastic depth, Huang et al. 2016)
};

/// What the forward pass keeps of one branch: a layer with its norm.
template <typename T>
struct BranchCache {
  View<const T> read;  // [B·rows, D]: residual input
  View<T> moments;     // of the norm, [R, 2]
  View<T> sum;         // kAfter: input of the norm, [B·rows, D]
  View<T> output;      // [B·rows, D]: input of LayerScale, if there is one
  View<T> factors;     // [B]: factors of stochastic depth, or empty
};

/// Kept by the forward pass, in the arena passed to it.
template <typename T>
struct BlockCache {
  View<const T> x;  // [B·N, D], owned by the caller
  View<T> normed;   // [B·N, D], owned by the caller: output of a norm before a layer; the backward pass recomputes it
  BranchCache<T> branch1, branch_cross, branch2;
  AttentionCache<T> attention, cross;
  MlpCache<T> mlp;
};

/// y = output of the block for the first `rows` tokens of each sequence; the others serve only as keys and values.
/// rows = N computes the whole block. x: [B, N, D], y: [B, rows, D], dense; normed: [B·N, D], scratch that blocks may
/// share, separate from x and y; source: [B, N_s, D_s], dense, for cross-attention. x, source, the memory of normed,
/// and that of `cache` in `arena` must live until the backward pass. Throws Error if the shapes do not fit.
template <typename T>
void BlockForward(View<const T> x, int64_t rows, const BlockParameters<const T>& p, const BlockSettings& settings,
                  View<T> y, View<T> normed, BlockCache<T>& cache, Arena& arena, View<const T> source = {});

/// dx: [B, N, D], dense; on entry its first `rows` tokens hold the gradient of y, on return dx is the gradient of x.
/// Adds the gradients of the weights to d, and that of the source to dsource. Writes cache.normed, so blocks that share
/// it must run one after the other. Same bits for any number of threads.
template <typename T>
void BlockBackward(int64_t rows, const BlockParameters<const T>& p, const BlockSettings& settings,
                   const BlockCache<T>& cache, View<T> dx, const BlockParameters<T>& d, Arena& arena,
                   View<T> dsource = {});

}  // namespace qkv::nn
