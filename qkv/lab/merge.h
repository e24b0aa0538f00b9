// Rewrites models so that heads store M and u in place of W_Q and W_K (docs/algebra.md, notes 1 and 2).
#pragma once

#include "qkv/lab/rewrite.h"

namespace qkv::lab {

/// Writes the model with kind of attention `merged`: M = W_Qᵀ W_K and u = W_Kᵀ b_Q of each head, computed in double
/// precision and rounded once to the stored type. Logits differ by that rounding: about u ‖M‖ ‖x‖² / √E with u = 2⁻²⁴
/// (fp32), 2⁻¹¹ (fp16) or 2⁻⁸ (bf16). The keys' bias is dropped, since softmax cancels it. Accepts every kind whose
/// queries and keys come from tokens. Throws Error as RequireLinearScores and WriteRewritten, and if the model is
/// already merged. The notes say if the model became larger or slower, as it does with narrow heads, and if M
/// was rounded to half precision.
Written Merge(const model::Checkpoint& checkpoint, const std::filesystem::path& folder, const WriteOptions& options);

}  // namespace qkv::lab
