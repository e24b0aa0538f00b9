// Measures of a rewriting: logits, attention, and the difference of two pairs on given tokens. Plain matrix products on
// one core, for analysis; qkv/attention has the fast versions.
#pragma once

#include "qkv/algebra/merge.h"

namespace qkv::algebra {

/// S = s · Q Kᵀ, [N_q, N_k], for tokens X_q [N_q, D_q], X_k [N_k, D_k]. Throws Error when the shapes do not fit.
Tensor<double> Logits(const QueryKeyView& pair, View<const double> queries, View<const double> keys, double scale);

/// The same from the merged form; with Terms::kSoftmax up to a constant per row.
Tensor<double> Logits(const Merged& merged, View<const double> queries, View<const double> keys, double scale);

/// The same for cosine attention: s · q_i·k_j / (‖q_i‖ ‖k_j‖).
Tensor<double> Logits(const MergedCosine& merged, View<const double> queries, View<const double> keys, double scale);

/// A = softmax of each row, [N_q, N_k].
Tensor<double> Softmax(View<const double> logits);

/// Difference of the logits and the attention of two pairs on given tokens.
struct AttentionError {
  double logits = 0;           // ‖S − S'‖_F
  double logits_relative = 0;  // ‖S − S'‖_F / ‖S‖_F
  double logits_max = 0;       // greatest |S_ij − S'_ij|
  double attention_max = 0;    // greatest |A_ij − A'_ij|
  double attention_mean = 0;   // mean over queries of the total variation ½ Σ_j |A_ij − A'_ij|, in [0, 1]
};

/// Compares the pairs' logits with the same scale: a rewriting to a smaller width keeps the original's (note 5). With
/// kSoftmax each row is compared up to a constant (its mean is subtracted first).
AttentionError Compare(const QueryKeyView& original, const QueryKeyView& rewritten, View<const double> queries,
                       View<const double> keys, double scale, Terms terms);

/// The fraction of the logits' energy due to b_K alone, ‖terms in b_K‖_F / ‖S‖_F on given tokens: w and c of Merged,
/// which softmax cancels (note 2). The gradient of any loss on the attention with respect to b_K is zero, so a trained
/// b_K is its initial value shrunk by weight decay. 0 without b_K.
double KeyBiasShare(const QueryKeyView& pair, View<const double> queries, View<const double> keys);

/// The gradient of a loss with respect to the key bias, Σ_ij G_ij s q_i with G = ∂loss/∂S from ∂loss/∂A
/// (`attention_gradient` [N_q, N_k]) through the softmax: [E], zero up to rounding (note 2).
Tensor<double> KeyBiasGradient(const QueryKeyView& pair, View<const double> queries, View<const double> keys,
                               double scale, View<const double> attention_gradient);

}  // namespace qkv::algebra
