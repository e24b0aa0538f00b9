// A model's blocks one after the other in training: what Network and SequenceNetwork have between the embedding of
// their tokens and the answer.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "qkv/core/arena.h"
#include "qkv/core/tensor.h"
#include "qkv/nn/training/block.h"
#include "qkv/train/network/parameter_views.h"

namespace qkv::train {

/// What is drawn is a function of seed, image (or sequence) and place alone, so the same images in other pieces, or
/// computed once more, meet the same chances.
struct NetworkOptions {
  double dropout = 0;            // of the entries of what attention and MLP add to the tokens
  double attention_dropout = 0;  // of attention weights
  double drop_path = 0;     // that the last block's branch adds nothing to an image; falls evenly to 0 at the first
  uint64_t seed = 0;        // of this step
  int64_t first_image = 0;  // which image of the step the first one is
  bool checkpoint = false;  // keep only what enters each block, and compute the rest once more in the backward pass
  bool bf16 = false;        // products of the blocks may round their factors to bfloat16, see simd::MatMul
};

simd::Precision PrecisionOf(const NetworkOptions& options);

/// What all blocks of a model are in this step, but for what BlocksForward draws for each.
nn::BlockSettings BlockSettingsOf(const nn::BlockConfig& config, const nn::TokenGrid& grid,
                                  const NetworkOptions& options);

/// What the forward pass leaves. Memory of an arena.
template <typename T>
struct BlocksCache {
  /// Memory for what enters each block, [B, N, D], and what leaves the last, [B, rows, D], and for what blocks share.
  void Begin(int64_t depth, int64_t B, int64_t N, int64_t rows, int64_t D, Arena& arena);

  View<T> input() const { return inputs.front(); }
  View<T> output() const { return inputs.back(); }

  std::vector<View<T>> inputs;
  View<T> normed;  // [B·N, D], of the block that is at work
  std::vector<nn::BlockCache<T>> blocks;
};

/// From cache.input() to cache.output(). `all`: BlockSettingsOf, and what else holds for every block.
template <typename T>
void BlocksForward(const NetworkParameters& parameters, View<const T> weights, const nn::BlockSettings& all,
                   const NetworkOptions& options, BlocksCache<T>& cache, Arena& arena);

/// dx: [B, N, D]; comes with the gradient by the output in its first rows and leaves with that by the input. Adds the
/// gradients of the weights; `finished`, where there is one, is told of each block's.
template <typename T>
void BlocksBackward(const NetworkParameters& parameters, View<const T> weights, const nn::BlockSettings& all,
                    const NetworkOptions& options, BlocksCache<T>& cache, View<T> dx, View<T> gradients,
                    const std::function<void(int64_t begin, int64_t end)>& finished, Arena& arena);

/// Puts weights of the blocks back into their bounds after a step: a bandwidth has a least value that checkpoints may
/// hold.
template <typename T>
void ConstrainBlocks(const NetworkParameters& parameters, View<T> weights);

}  // namespace qkv::train
