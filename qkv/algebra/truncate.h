// Reduces the features per head: the best pair of width r in place of one of width E. Approximate; logits.h measures
// it.
#pragma once

#include <optional>

#include "qkv/algebra/projection.h"

namespace qkv::algebra {

/// The pair of width `rank` with the least ‖M − M_r‖_F (Eckart and Young 1936; note 8): the error is the root of the
/// sum of squares of the omitted singular values. Balanced. With biases M is the augmented matrix of `terms` ([W b] on
/// both sides, or on the queries' only), so a bias counts as one more input. The logits keep the scale of the original
/// pair, E^(-1/2) of the old E (note 5). Throws Error unless 1 <= rank <= min(E, D), and if the shapes do not fit.
QueryKey Truncate(const QueryKeyView& pair, int64_t rank, Terms terms);

/// The pair of width `rank` with the least ‖X_q (M − M_r) X_kᵀ‖_F on calibration tokens X_q [N_q, D_q], X_k
/// [N_k, D_k] (note 8); with biases that of the logits with `terms`. The same as truncating C_q^½ M C_k^½,
/// C = XᵀX / N, and undoing the C^½, but without D×D matrices or inverses: with Q = Q₁ R₁, K = Q₂ R₂ and
/// R₁ R₂ᵀ = U Σ Vᵀ the solution is M_r = W_Qᵀ R₂ᵀ V_r Σ_r⁻¹ U_rᵀ R₁ W_K, whose error is the root of the sum of
/// squares of the omitted singular values. Directions that the tokens do not span are dropped: with fewer tokens than D
/// it is optimal on these tokens only.
/// Optimal before softmax, not after it. If only the attention counts, centre the keys' tokens: this minimises the
/// error of the logits up to a constant per query. Throws Error as Truncate.
QueryKey TruncateForData(const QueryKeyView& pair, View<const double> queries, View<const double> keys, int64_t rank,
                         Terms terms);

/// T_Q and T_K, [E, E] each, such that for every r the first r rows give the best approximation of rank r of the scores
/// Q Kᵀ: Q T_Qᵀ T_K Kᵀ. What TruncateForData gives for the tokens Q and K and M = I, several times as fast: from
/// QᵀQ and KᵀK, [E, E] each, whose rounding counts with the square of K's condition. Nothing if that exceeds 10⁵, as of
/// keys that are linearly dependent.
struct TokenFactors {
  Tensor<double> query, key;
};
std::optional<TokenFactors> FactorTokens(View<const double> query_gram, View<const double> key_gram);

}  // namespace qkv::algebra
