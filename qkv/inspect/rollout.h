// Attention rollout (Abnar and Zuidema 2020, "Quantifying Attention Flow in Transformers"): where a token's content
// comes from when attention is followed through all blocks.
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
  /// Of each block's fused matrix, the fraction of its N² entries that counts as 0, the lowest; below 1. The class
  /// token's attention to itself always stays. Entries as large as the first that stays, stay.
  double discard = 0;
  Query query = {};  // whose content is followed back
};

/// Rows of Ã_last · … · Ã_first, where Ã is ½A + ½I with each row divided by its sum, and A the fused attention:
/// [Q, N], rows sum to 1. For one query that is what the paper's matrix product gives for its row.
/// pixels: [1, channels, height, width], finite.
///
/// The forward pass keeps what enters each block; then the rows are carried backwards through the blocks, whose weights
/// are made once more, a few rows at a time: memory is blocks · N · D + Q · N, never N², unless all queries are asked
/// for. A discarded fraction costs the weights twice more in float, four times more in double, to find the exact
/// threshold by counting 16 of its bits a time.
/// Throws Error for pixels, blocks, a fraction or tokens that do not fit.
template <typename T>
Tensor<T> AttentionRollout(const model::Vit<T>& vit, View<const T> pixels, const RolloutRequest& request,
                           model::Workspace<T>& workspace);

/// Rollout of an image through all blocks, heads averaged, nothing discarded: how much of the class token's content
/// (without one: of the patches' mean) comes from each patch, [grid height, grid width]. What comes from prefix tokens
/// is left out. Throws Error if the image does not fit the model, and if a value is not finite.
Tensor<float> AttentionRollout(const model::Model& model, const image::Image& image);

}  // namespace qkv::inspect
