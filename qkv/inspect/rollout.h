// Attention rollout (Abnar and Zuidema 2020, "Quantifying Attention Flow in Transformers"): traces a token's content
// back through the attention of all blocks.
#pragma once

#include <cstdint>

#include "qkv/image/image.h"
#include "qkv/inspect/maps.h"
#include "qkv/model/model.h"

namespace qkv::inspect {

/// Which rollout AttentionRollout computes.
struct RolloutRequest {
  int64_t first_block = 0, last_block = 0;  // from 0, both included
  Fusion fusion = Fusion::kMean;            // of the heads
  /// Fraction of each block's fused matrix, N² entries, set to 0, lowest first; below 1. The class token's attention to
  /// itself is always kept, and so are ties with the smallest kept entry.
  double discard = 0;
  Query query = {};  // the tokens that are traced back
};

/// Rows of Ã_last · … · Ã_first, where Ã is ½A + ½I with each row divided by its sum, and A the fused attention:
/// [Q, N], rows sum to 1. For one query this equals its row of the paper's matrix product.
/// pixels: [1, channels, height, width], finite.
///
/// The forward pass keeps each block's input. The rows are then carried backwards through the blocks, recomputing their
/// weights a few rows at a time: memory is blocks · N · D + Q · N, never N² unless all queries are requested. A
/// discarded fraction computes the weights two more times in float, four more in double, to find the exact threshold 16
/// bits per pass. Throws Error if pixels, blocks, the fraction or tokens do not fit.
template <typename T>
Tensor<T> AttentionRollout(const model::Vit<T>& vit, View<const T> pixels, const RolloutRequest& request,
                           model::Workspace<T>& workspace);

/// The same from weights that are in memory already, [depth, H, N, N], which may be changed ones.
template <typename T>
Tensor<T> AttentionRollout(View<const T> weights, const model::VitConfig& config, const RolloutRequest& request);

/// Rollout through all blocks with averaged heads and nothing discarded: the share of the class token's content
/// (without one: of the patches' mean) from each patch, [grid height, grid width]. Shares of prefix tokens are omitted.
/// Throws Error if the image does not fit the model, or a value is not finite.
Tensor<float> AttentionRollout(const model::Model& model, const image::Image& image);

}  // namespace qkv::inspect
