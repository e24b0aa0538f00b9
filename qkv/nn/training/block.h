// A pre-norm Transformer block in training, forward and backward: x += drop(ls1 · attention(norm1 x));
// x += drop(ls2 · mlp(norm2 x)), where drop is stochastic depth.
#pragma once

#include "qkv/nn/training/attention.h"
#include "qkv/nn/training/mlp.h"

namespace qkv::nn {

/// Weights (T const) or, in the same places, their gradients.
template <typename T>
struct BlockParameters {
  NormParameters<T> norm1;
  AttentionParameters<T> attention;
  View<T> scale1;  // LayerScale (Touvron et al. 2021) [D], or empty
  NormParameters<T> norm2;
  MlpParameters<T> mlp;
  View<T> scale2;
};

/// What a block is, and what it is told about this step.
struct BlockSettings {
  AttentionSettings attention;  // with seed and first image, by which all of the block's chances are drawn
  MlpSettings mlp;
  double eps = 1e-6;     // of norm1 and norm2
  double dropout = 0;    // of the entries of what attention and MLP put out
  double drop_path = 0;  // that attention, or MLP, adds nothing to an image (stochastic depth, Huang et al. 2016)
};

/// What the forward pass keeps. Memory of the arena that it was given.
template <typename T>
struct BlockCache {
  View<const T> x;   // [B·N, D], the caller's
  View<T> normed;    // [B·N, D], the caller's: what norm1 puts out, then norm2; the backward pass makes it once more
  View<T> moments1;  // [B·N, 2]
  AttentionCache<T> attention;
  View<T> middle;    // [B·rows, D], after attention
  View<T> moments2;  // [B·rows, 2]
  MlpCache<T> mlp;
  View<T> output1, output2;    // [B·rows, D]: what LayerScale scales, where there is one
  View<T> factors1, factors2;  // [B]: what drop path multiplies it by, or empty
};

/// y = the first `rows` tokens of each sequence after the block; the others only serve as keys and values. rows = N is
/// the whole block. x: [B, N, D], y: [B, rows, D], dense; normed: [B·N, D], scratch that blocks may share, apart from x
/// and y. x, the memory of normed and what `cache` points to, in `arena`, must stay until the backward pass. Throws
/// Error when shapes do not fit.
template <typename T>
void BlockForward(View<const T> x, int64_t rows, const BlockParameters<const T>& p, const BlockSettings& settings,
                  View<T> y, View<T> normed, BlockCache<T>& cache, Arena& arena);

/// dx: [B, N, D], dense; comes with the gradient by y in its first `rows` tokens and leaves with that by x. Adds the
/// gradients of the weights to d. Writes cache.normed, so blocks that share it take turns. The same bits for any number
/// of threads.
template <typename T>
void BlockBackward(int64_t rows, const BlockParameters<const T>& p, const BlockSettings& settings,
                   const BlockCache<T>& cache, View<T> dx, const BlockParameters<T>& d, Arena& arena);

}  // namespace qkv::nn
