// The gauge freedom of a pair, and ways to fix it (note 6). A gauge is an invertible T [E, E]: W_Q → Tᵀ W_Q, b_Q → Tᵀ
// b_Q, W_K → T⁻¹ W_K, b_K → T⁻¹ b_K leaves every logit q_i·k_j unchanged. It does change weight decay, the optimiser's
// path, QK-norm and rotary positions (T must then commute with the rotations).
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "qkv/algebra/projection.h"

namespace qkv::algebra {

/// The pair in another gauge. Exact; rounding errors grow with the condition number of T. Throws Error if the shapes do
/// not fit or T is singular to working precision.
QueryKey Regauge(const QueryKeyView& pair, View<const double> transform);

/// T that balances the weights: W_Q W_Qᵀ = W_K W_Kᵀ = diag(σ), the singular values of M; of all gauges it has the least
/// ‖W_Q‖² + ‖W_K‖² = 2 Σσ. Unique up to signs if the singular values are distinct. [E, E]. Throws Error unless both
/// weights have rank E (use Split otherwise).
Tensor<double> BalancedGauge(const QueryKeyView& pair);

/// T for the heads of queries that share one head of keys: of all gauges it has the least ‖W_K‖² + Σ‖W_Q‖², and
/// Σ W_Q W_Qᵀ = W_K W_Kᵀ. [E, E]. Throws Error unless the queries' weights together, and W_K, have rank E.
Tensor<double> BalancedGauge(std::span<const ProjectionView> queries, const ProjectionView& key);

/// T that makes the keys' rows orthonormal, W_K W_Kᵀ = I; the queries' weight then holds all of M, with its singular
/// values. Unique: T is lower triangular with a positive diagonal. [E, E]. Throws Error unless W_K has rank E.
Tensor<double> OrthonormalKeysGauge(const ProjectionView& key);

/// T that turns the columns `columns` of W_K, in this order, into the identity. They need not be stored, which saves E²
/// of 2DE parameters, a fraction 1/(2H) if E = D/H.
struct IdentityBlock {
  Tensor<double> transform;      // [E, E]
  std::vector<int64_t> columns;  // E of them, the first of pivoted QR: far from dependent
  double condition = 0;          // of the transform
};

/// Throws Error unless W_K has rank E.
IdentityBlock IdentityBlockGauge(const ProjectionView& key);

/// Ways to fix the gauge.
enum class Gauge { kBalanced, kOrthonormalKeys, kIdentityBlock };

/// "balanced", "orthonormal_keys", "identity_block".
std::string_view Name(Gauge gauge);
/// Throws Error, which begins with `what`, for another name.
Gauge ParseGauge(std::string_view name, std::string_view what);

/// T for the heads of queries that share one head of keys. Throws Error as the functions above.
Tensor<double> FixGauge(Gauge gauge, std::span<const ProjectionView> queries, const ProjectionView& key);

}  // namespace qkv::algebra
