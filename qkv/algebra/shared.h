// What a layer whose queries and keys share one projection can never do (note 16, claim C4).
// Its logits on common tokens are S = s · (X Wᵀ)(X Wᵀ)ᵀ with s > 0 (biases too if they are shared): positive
// semidefinite, whatever W, its width or the tokens are. Each function here is a test on logits that every such S
// passes: a value above rounding proves that no shared projection makes them. They need not be diagonally dominant.
#pragma once

#include <cstdint>
#include <span>

#include "qkv/core/tensor.h"

namespace qkv::algebra {

/// max over i ≠ j of S_ij + S_ji − S_ii − S_jj of S [N, N], N >= 2. At most 0 if shared: S_ii + S_jj ≥ 2 S_ij, since
/// S_ii + S_jj − 2 S_ij = s‖q_i − q_j‖². Throws Error unless S is square.
template <typename T>
double PairExcess(View<const T> logits);

/// Σ_i (S_i,next(i) − S_ii) for a permutation `next` of the tokens. At most 0 if shared, by the sum of PairExcess's
/// inequality around each cycle. A constant added to a row changes nothing, so that log A serves as well as S: no
/// shared attention lets every token prefer its successor in a cycle to itself, though one token may.
/// Throws Error unless S is square and `next` a permutation of its rows.
template <typename T>
double CycleExcess(View<const T> logits, std::span<const int64_t> next);

/// How far A = softmax(S) is from detailed balance, π_i A_ij = π_j A_ji: the greatest
/// |log A_ij A_jk A_ki − log A_ik A_kj A_ji| over triples through token 0, which all others follow from (Kolmogorov
/// 1936). 0 if shared, and for every symmetric M; takes S or log A. If shared, A also has real eigenvalues in [0, 1]
/// (exp of a positive semidefinite S, element by element, is one again, by Schur's product theorem).
template <typename T>
double BalanceError(View<const T> logits);

}  // namespace qkv::algebra
