// Reduces the query-key features per head (docs/algebra.md, note 8), and measures how much the attention changes.
#pragma once

#include <vector>

#include "qkv/algebra/logits.h"
#include "qkv/lab/rewrite.h"
#include "qkv/lab/tokens.h"

namespace qkv::lab {

struct TruncateOptions {
  int64_t rank = 1;  // features per query and key of a head
  // Null: optimal for the weights, minimising ‖M − M_r‖. Otherwise optimal for the logits of these tokens, up to a
  // constant per query and image. It covers all pairs over all images, also a query and a key of different images,
  // which attention never combines; so it is not optimal for each single image.
  const BlockTokens* calibration = nullptr;
  WriteOptions write;
};

/// Writes the model with kind of attention `low_rank` and the original scale. Biases count as one more input; the keys'
/// bias is dropped, since softmax cancels it. Accepts every kind whose queries and keys come from tokens. A note says
/// if there were few tokens to calibrate on. Throws Error as RequireLinearScores and WriteRewritten, and unless 1 <=
/// rank <= min(width of the heads, D).
Written Truncate(const model::Checkpoint& checkpoint, const std::filesystem::path& folder,
                 const TruncateOptions& options);

/// Difference between a head of one model and the same head of another on the first model's tokens, over all images:
/// norm of all logits, root mean square of the images' relative errors, mean and greatest error of the attention.
/// Logits are compared up to a constant per query.
struct HeadError {
  int64_t block = 0, head = 0;
  algebra::AttentionError error;
};

/// Compares every head of two models. Throws Error if their shapes differ.
std::vector<HeadError> CompareHeads(const model::Checkpoint& original, const model::Checkpoint& rewritten,
                                    const BlockTokens& tokens);

}  // namespace qkv::lab
