// Factors M into query and key weights. The attention is equal; the weights are not the original ones, since M does not
// determine the gauge (gauge.h). The result is balanced: W_Q W_Qᵀ = W_K W_Kᵀ = diag(σ), with biases as one more column.
#pragma once

#include "qkv/algebra/merge.h"

namespace qkv::algebra {

/// Balanced, from known factors (note 7): W_Q = Σ^½ Uᵀ, W_K = Σ^½ Vᵀ of M = U Σ Vᵀ, by QR of each factor and the SVD of
/// the small R_Q R_Kᵀ: O(D E²), without a D×D decomposition. Exact, and of the least ‖W_Q‖² + ‖W_K‖² for this M, twice
/// its nuclear norm. If E > D the width becomes D. The scale stays that of the original pair. kSoftmax drops b_K; its
/// conditions are Merge's. Throws Error if the shapes do not fit.
QueryKey Split(const QueryKeyView& pair, Terms terms);

/// Balanced, from M alone: by an SVD of M, which reveals the rank (singular values above D · ε · σ_1). `width`: the
/// rows of the weights, zeros above the rank; 0 means the rank itself (at least 1). u, w and c become biases again:
/// their matrix [M w; uᵀ c] is decomposed, of rank at most E if it came from a pair. `rounding`: relative error of M,
/// such as the unit roundoff of the type it was stored in; singular values that together do not exceed it count as zero
/// as well. Exact up to that. Throws Error if the rank is greater than `width`: that is truncation (truncate.h).
QueryKey Split(const Merged& merged, int64_t width = 0, double rounding = 0);

}  // namespace qkv::algebra
