// Models whose heads carry M and u in place of W_Q and W_K (notes 1 and 2).
#pragma once

#include "qkv/lab/rewrite.h"

namespace qkv::lab {

/// Writes the model with kind of attention `merged`: M = W_Qᵀ W_K and u = W_Kᵀ b_Q of each head, made in double
/// precision, rounded once to the type they are stored in. Logits differ by that rounding: by about u ‖M‖ ‖x‖² / √E
/// with u = 2⁻²⁴ (fp32), 2⁻¹¹ (fp16) or 2⁻⁸ (bf16). The keys' bias is gone, softmax never saw it.
/// Queries and keys may be of any kind that come from tokens. Throws Error as RequireLinearScores and WriteRewritten,
/// and when the model is merged already.
Written Merge(const model::Checkpoint& checkpoint, const std::filesystem::path& folder, const WriteOptions& options);

}  // namespace qkv::lab
