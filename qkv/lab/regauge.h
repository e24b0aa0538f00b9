// Rewrites models so that heads have other weights of the same attention (docs/algebra.md, note 6).
#pragma once

#include "qkv/algebra/gauge.h"
#include "qkv/lab/rewrite.h"

namespace qkv::lab {

/// Writes the model with the W_Q and W_K of each head in this gauge, biases too: M, and so every logit, is the same up
/// to the rounding of the stored type times the transform's condition number. Throws Error as RequireLinearScores and
/// WriteRewritten, unless W_Q and W_K are weights of their own (kinds `separate` and `low_rank`), and if a head's
/// weights have not full rank.
Written Regauge(const model::Checkpoint& checkpoint, algebra::Gauge gauge, const std::filesystem::path& folder,
                const WriteOptions& options);

}  // namespace qkv::lab
