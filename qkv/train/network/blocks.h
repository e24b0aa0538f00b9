// Forward and backward passes through all blocks of a model in training. Network and SequenceNetwork share them; they
// add the embedding and the head.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "qkv/core/arena.h"
#include "qkv/core/tensor.h"
#include "qkv/nn/training/block.h"
#include "qkv/train/network/parameter_views.h"

namespace qkv::train {

/// Random masks depend on the seed, the image (or sequence) and the position only. They do not depend on how the batch
/// is split, nor on recomputation.
struct NetworkOptions {
  double dropout = 0;            // rate of dropout on the outputs of attention and MLP
  double attention_dropout = 0;  // rate of dropout on attention weights
  double drop_path = 0;     // rate of drop path (stochastic depth) at the last block; falls linearly to 0 at the first
  uint64_t seed = 0;        // of this step
  int64_t first_image = 0;  // index within the step of the batch's first image
  bool checkpointing = false;  // keep only each block's input, and recompute the rest in the backward pass
  bool bf16 = false;           // matrix products of the blocks may round their factors to bfloat16, see simd::MatMul
  // Experiments: all tokens of the last block are computed, also those that the head does not read; and a replacement
  // of softmax attention, or null (nn::AttentionSettings::open).
  bool all_rows = false;
  nn::OpenAttention* open = nullptr;
};

simd::Precision ToPrecision(const NetworkOptions& options);

/// The settings that all blocks share in this step. BlocksForward adds each block's random masks.
nn::BlockSettings MakeBlockSettings(const nn::BlockConfig& config, const nn::TokenGrid& grid,
                                    const NetworkOptions& options);

/// What the forward pass keeps for the backward pass. The memory belongs to an arena.
template <typename T>
struct BlocksCache {
  /// Allocates the blocks' inputs, [B, N, D] each, the last block's output, [B, rows, D], and shared scratch.
  void Begin(int64_t depth, int64_t B, int64_t N, int64_t rows, int64_t D, Arena& arena);

  View<T> input() const { return inputs.front(); }
  View<T> output() const { return inputs.back(); }

  std::vector<View<T>> inputs;
  View<T> normed;  // [B·N, D], of the current block
  std::vector<nn::BlockCache<T>> blocks;
};

/// Computes cache.output() from cache.input(). `all`: MakeBlockSettings, plus any other setting that all blocks share.
/// source: [B, N_s, D_s], dense, which cross-attention reads; it must live until the backward pass.
template <typename T>
void BlocksForward(const NetworkParameters& parameters, View<const T> weights, const nn::BlockSettings& all,
                   const NetworkOptions& options, BlocksCache<T>& cache, Arena& arena, View<const T> source = {});

/// dx: [B, N, D], in its first rows the gradient of the output on entry, the gradient of the input on return.
/// Accumulates the gradients of the weights. Calls `finished`, if given, with each block's range of `gradients` once it
/// is final. source: that of the forward pass; its gradient is added to dsource.
template <typename T>
void BlocksBackward(const NetworkParameters& parameters, View<const T> weights, const nn::BlockSettings& all,
                    const NetworkOptions& options, BlocksCache<T>& cache, View<T> dx, View<T> gradients,
                    const std::function<void(int64_t begin, int64_t end)>& finished, Arena& arena,
                    View<const T> source = {}, View<T> dsource = {});

/// Clamps the blocks' weights to their bounds after a step: checkpoints require a least bandwidth.
template <typename T>
void ConstrainBlocks(const NetworkParameters& parameters, View<T> weights);

}  // namespace qkv::train
