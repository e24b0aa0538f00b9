// Limits of layers whose queries and keys share one projection (note 16, claim C4). Their logits on common tokens are S
// = s · (X Wᵀ)(X Wᵀ)ᵀ with s > 0 (biases too if they are shared): positive semidefinite for any W, width and tokens.
// Each function here is a test on logits that every such S passes: a value above rounding proves that no shared
// projection produces them. S need not be diagonally dominant.
// passes: a value above rounding proves that no shared projection makes them. They need not be diagonally dominant.
#pragma once

#include <cstdint>
#include <span>

#include "qkv/core/tensor.h"

namespace qkv::algebra {

/// max over i ≠ j of S_ij + S_ji − S_ii − S_jj of S [N, N], N >= 2. At most 0 if shared: S_ii + S_jj ≥ 2 S_ij, since
/// S_ii + S_jj − 2 S_ij = s‖q_i − q_j‖². Throws Error unless S is square.
double PairExcess(View<const double> logits);

/// Σ_i (S_i,next(i) − S_ii) for a permutation `next` of the tokens. At most 0 if shared, by summing PairExcess's
/// inequality around each cycle. A constant added to a row does not change it, so S may be log A: with shared
/// attention, not every token of a cycle can prefer its successor to itself, though a single token may. Throws Error
/// unless S is square and `next` is a permutation of its rows.
double CycleExcess(View<const double> logits, std::span<const int64_t> next);

/// The deviation of A = softmax(S) from detailed balance, π_i A_ij = π_j A_ji: the greatest |log A_ij A_jk A_ki − log
/// A_ik A_kj A_ji| over triples with token 0, which imply all others (Kolmogorov 1936). 0 if shared, and for every
/// symmetric M; accepts S or log A. If shared, A also has real eigenvalues in [0, 1] (the elementwise exp of a positive
/// semidefinite S is positive semidefinite, by Schur's product theorem).
double BalanceError(View<const double> logits);

}  // namespace qkv::algebra
