// What a model's attention heads do with tokens: how far they look, how widely, and whether position or content decides
// where (heads_logits.h). What they are from their weights alone: heads.h.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "qkv/inspect/heads_logits.h"
#include "qkv/model/model.h"

namespace qkv::inspect {

/// One head's attention A, the model's own, whatever its kind: means over images and queries, those of all tokens
/// except for `distance` and `near`, which patches alone have. NaN where a model has nothing of that.
struct HeadAttention {
  double entropy = 0;      // −Σ_j A_ij log A_ij, in nats: log N where all tokens are attended alike, 0 for one alone
  double distance = 0;     // from a patch to the patches that it attends to, weighed by A, in patches
  double near = 0;         // of what a patch gives to patches, the share of itself and the eight around it
  double self = 0;         // A_ii
  double class_token = 0;  // what goes to the class token, and to the distillation token where there is one
  double registers = 0;    // what goes to registers
};

struct TokenStatistics {
  int64_t images = 0, tokens = 0, grid_height = 0, grid_width = 0;
  HeadAttention uniform;                 // of attention that is alike everywhere, to compare with
  std::vector<HeadAttention> attention;  // [L·H]: head h of block b is b · H + h
  /// [L·H], or empty where it cannot be known: with one image, whose mean is itself, or with norms on queries and keys,
  /// which do not split.
  std::vector<LogitShares> logits;
};

/// Runs the images one by one and, where logits are split, once more before, for the means over them. pixels:
/// [B, channels, height, width]; `model` is the checkpoint's. `advance` is called after each image of each run.
/// Throws Error when the shapes do not fit, or a block's scores are not made of tokens (ReadAttention).
TokenStatistics MeasureTokens(const model::Checkpoint& checkpoint, const model::Model& model, View<const float> pixels,
                              const std::function<void()>& advance);

/// Random images in a model's own units, each of mean 0 and variance 1, with as much energy in every octave of
/// frequency, as photographs have: noise of every cell size from a pixel up, one on the other.
/// shape: [B, channels, height, width].
Tensor<float> NoiseImages(const Shape& shape, uint64_t seed);

}  // namespace qkv::inspect
