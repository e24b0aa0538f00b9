// Measures attention heads on images: attention distance, entropy, and the roles of position and content
// (heads_logits.h). Not here: numbers from weights alone (heads.h), and texts (heads_texts.h).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "qkv/inspect/heads_logits.h"
#include "qkv/model/model.h"

namespace qkv::inspect {

/// Statistics of one head's attention A, of any kind: means over images and over the queries of all tokens, or of the
/// patches for `distance` and `near`. For texts: means over all queries of all texts. NaN if not defined for the model.
struct HeadAttention {
  double entropy = 0;   // −Σ_j A_ij log A_ij, in nats: log N for uniform attention, 0 for a single token
  double distance = 0;  // mean distance of a patch to the patches it attends to, weighted by A, in patches or tokens
  double near = 0;      // fraction of a patch's attention to patches that goes to itself and its eight neighbours; of
                        // a text's token to itself and the two beside it
  double self = 0;      // A_ii
  double class_token = 0;  // weight on the class token, plus the distillation token if there is one
  double registers = 0;    // weight on registers
  double first = 0;        // weight on a text's first token
  double last = 0;         // of cross-attention: weight on the source's last token, which ends it
  /// For cross-attention: 1 − Σ d / Σ u over the texts, d the mean distance Σ_j A_ij |i/(T − 1) − j/(N − 1)| from the
  /// diagonal and u that of uniform attention. 1 on the diagonal, 0 as uniform attention, negative farther away.
  double diagonal = 0;
};

struct TokenStatistics {
  int64_t images = 0;  // or texts
  int64_t tokens = 0;  // an image; of texts the queries of all of them
  int64_t grid_height = 0, grid_width = 0;
  int64_t split_texts = 0, split_tokens = 0;  // texts whose first tokens `logits` are of, and how many tokens
  HeadAttention uniform;                      // the values of uniform attention, for comparison
  std::vector<HeadAttention> attention;       // [L·H]: head h of block b is b · H + h
  /// [L·H], or empty if undefined: with one image, which equals its mean, or with QK-norm, which is not linear.
  std::vector<LogitShares> logits;
};

/// Runs the images one by one; if logits are decomposed, an earlier pass computes the means. pixels: [B, channels,
/// height, width]; `model` must be the checkpoint's. Calls `advance` after each image of each pass. Throws Error if the
/// shapes do not fit, or a block's scores do not come from tokens (ReadAttention).
TokenStatistics MeasureTokens(const model::Checkpoint& checkpoint, const model::Model& model, View<const float> pixels,
                              const std::function<void()>& advance);

/// Random images in the model's units, mean 0 and variance 1 each, with equal energy in every octave of frequency, as
/// in photographs: a sum of noise of every cell size from one pixel up. shape: [B, channels, height, width].
Tensor<float> NoiseImages(const Shape& shape, uint64_t seed);

}  // namespace qkv::inspect
