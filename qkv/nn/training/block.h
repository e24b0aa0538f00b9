// A Transformer block in training, forward and backward: x += drop(ls · layer(norm x)) for attention, cross-attention
// where there is one, and MLP; or x = norm(x + drop(ls · layer(x))). drop is stochastic depth.
#pragma once

#include "qkv/nn/training/attention.h"
#include "qkv/nn/training/mlp.h"

namespace qkv::nn {

/// Weights (T const) or, in the same places, their gradients.
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

/// What a block is, and what it is told about this step.
struct BlockSettings {
  AttentionSettings attention;  // its seed and first image draw all of the block's random numbers but cross.seed's
  AttentionSettings cross;      // of blocks with cross-attention; its key lengths and mask are the source's
  MlpSettings mlp;
  NormPlace norm_place = NormPlace::kBefore;
  double dropout = 0;    // of the entries of what the layers put out
  double drop_path = 0;  // that a layer adds nothing to an image (stochastic depth, Huang et al. 2016)
};

/// One layer with its norm, and how it joins the tokens.
template <typename T>
struct BranchCache {
  View<const T> read;  // [B·rows, D]: the tokens that the output is added to
  View<T> moments;     // of its norm, [R, 2]
  View<T> sum;         // kAfter: what the norm reads, [B·rows, D]
  View<T> output;      // [B·rows, D]: what LayerScale scales, where there is one
  View<T> factors;     // [B]: what drop path multiplies it by, or empty
};

/// What the forward pass keeps. Memory of the arena that it was given.
template <typename T>
struct BlockCache {
  View<const T> x;  // [B·N, D], the caller's
  View<T> normed;  // [B·N, D], the caller's: what a norm before a layer puts out; the backward pass makes it once more
  BranchCache<T> branch1, branch_cross, branch2;
  AttentionCache<T> attention, cross;
  MlpCache<T> mlp;
};

/// y = the first `rows` tokens of each sequence after the block; the others only serve as keys and values. rows = N is
/// the whole block. x: [B, N, D], y: [B, rows, D], dense; normed: [B·N, D], scratch that blocks may share, apart from x
/// and y; source: [B, N_s, D_s], dense, of blocks with cross-attention. x, source, the memory of normed and what
/// `cache` points to, in `arena`, must stay until the backward pass. Throws Error when shapes do not fit.
template <typename T>
void BlockForward(View<const T> x, int64_t rows, const BlockParameters<const T>& p, const BlockSettings& settings,
                  View<T> y, View<T> normed, BlockCache<T>& cache, Arena& arena, View<const T> source = {});

/// dx: [B, N, D], dense; comes with the gradient by y in its first `rows` tokens and leaves with that by x. Adds the
/// gradients of the weights to d, and that of the source to dsource. Writes cache.normed, so blocks that share it take
/// turns. The same bits for any number of threads.
template <typename T>
void BlockBackward(int64_t rows, const BlockParameters<const T>& p, const BlockSettings& settings,
                   const BlockCache<T>& cache, View<T> dx, const BlockParameters<T>& d, Arena& arena,
                   View<T> dsource = {});

}  // namespace qkv::nn
