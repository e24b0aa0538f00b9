// M back into queries' and keys' weights: the attention is the same, the weights are not, since M does not know its
// gauge (gauge.h). What comes out is balanced: W_Q W_Qᵀ = W_K W_Kᵀ = diag(σ), biases counted as one more column.
#pragma once

#include "qkv/algebra/merge.h"

namespace qkv::algebra {

/// Balanced, from known factors (note 7): W_Q = Σ^½ Uᵀ, W_K = Σ^½ Vᵀ of M = U Σ Vᵀ, by QR of each factor and the SVD
/// of the small R_Q R_Kᵀ: O(D E²), never a D×D decomposition. Exact; of the least ‖W_Q‖² + ‖W_K‖² that gives this M,
/// twice its nuclear norm. The width falls to D where E > D. The scale stays that of the original pair. kSoftmax
/// drops b_K, and its conditions are Merge's. Throws Error when the shapes do not fit.
template <typename T>
QueryKey<T> Split(const QueryKeyView<T>& pair, Terms terms);

/// Balanced, where only M is known: by an SVD of M, which reveals the rank (singular values above D · ε · σ_1).
/// `width`: the rows of the weights, zeros below the rank; 0 takes the rank itself (at least 1). u, w and c become
/// biases again: their matrix [M w; uᵀ c] is decomposed, of rank at most E if it came from a pair.
/// `rounding`: how far, relative to its norm, M may be from the one that was meant, such as the unit roundoff of the
/// type that it was stored in: the singular values that together are not above it count as zero as well. Exact up to
/// that. Throws Error when the rank is greater than `width`: that is truncation (truncate.h).
template <typename T>
QueryKey<T> Split(const Merged<T>& merged, int64_t width = 0, double rounding = 0);

}  // namespace qkv::algebra
