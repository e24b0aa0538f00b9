// Smaller models: fewer features of queries and keys a head (note 8), and how far their attention is then.
#pragma once

#include <vector>

#include "qkv/algebra/logits.h"
#include "qkv/lab/rewrite.h"
#include "qkv/lab/tokens.h"

namespace qkv::lab {

struct TruncateOptions {
  int64_t rank = 1;  // features of a head's query and key
  // Nothing: the weights' own optimum, the least ‖M − M_r‖. Otherwise that of the logits of these tokens, up to a
  // constant for each query and image: of all pairs over all images together, also of a query of one image and a key of
  // another, which attention never meets. So it is the best for no image by itself.
  const BlockTokens* calibration = nullptr;
  WriteOptions write;
};

/// Writes the model with kind of attention `low_rank`, the scale that of the original. Biases count as one more input;
/// the keys' is gone, softmax never saw it. Queries and keys may be of any kind that come from tokens.
/// Throws Error as RequireLinearScores and WriteRewritten, and unless 1 <= rank <= min(width of the heads, D).
Written Truncate(const model::Checkpoint& checkpoint, const std::filesystem::path& folder,
                 const TruncateOptions& options);

/// How far a head of one model is from the same head of another on the tokens of the first, over all images: the norm
/// of all logits, the root mean square of the images' relative errors, the mean and the greatest of the attention's.
/// Logits are compared up to a constant for each query.
struct HeadError {
  int64_t block = 0, head = 0;
  algebra::AttentionError error;
};

/// Every head of two models of the same shape. Throws Error when they are not.
std::vector<HeadError> CompareHeads(const model::Checkpoint& original, const model::Checkpoint& rewritten,
                                    const BlockTokens& tokens);

}  // namespace qkv::lab
