// The freedom of a pair that its attention does not see, and ways to fix it (note 6).
// A gauge is an invertible T [E, E]: W_Q → Tᵀ W_Q, b_Q → Tᵀ b_Q, W_K → T⁻¹ W_K, b_K → T⁻¹ b_K leaves every logit, so
// q_i·k_j, as it is. What is not the same afterwards: weight decay, the optimiser's path, QK-norm and rotary positions
// (T must then commute with the rotations).
#pragma once

#include <vector>

#include "qkv/algebra/projection.h"

namespace qkv::algebra {

/// The pair in another gauge. Exact; the rounding grows with the condition number of T.
/// Throws Error when the shapes do not fit or T is singular to working precision.
template <typename T>
QueryKey<T> Regauge(const QueryKeyView<T>& pair, View<const T> transform);

/// T that balances the weights: W_Q W_Qᵀ = W_K W_Kᵀ = diag(σ), the singular values of M, of all gauges the least
/// ‖W_Q‖² + ‖W_K‖² = 2 Σσ. Unique up to signs where the singular values differ. [E, E].
/// Throws Error unless both weights have rank E (Split serves the rest).
template <typename T>
Tensor<T> BalancedGauge(const QueryKeyView<T>& pair);

/// T that makes the keys' rows orthonormal, W_K W_Kᵀ = I; the queries' weight then holds all of M, with its singular
/// values. Unique: T is lower triangular with a positive diagonal. [E, E]. Throws Error unless W_K has rank E.
template <typename T>
Tensor<T> OrthonormalKeysGauge(const ProjectionView<T>& key);

/// T that makes the columns `columns` of W_K, in this order, the identity: they need not be stored, which saves E² of
/// 2DE parameters, the share 1/(2H) where E = D/H.
template <typename T>
struct IdentityBlock {
  Tensor<T> transform;           // [E, E]
  std::vector<int64_t> columns;  // E of them, of those that pivoted QR takes first: far from dependent
  double condition = 0;          // of the transform
};

/// Throws Error unless W_K has rank E.
template <typename T>
IdentityBlock<T> IdentityBlockGauge(const ProjectionView<T>& key);

}  // namespace qkv::algebra
