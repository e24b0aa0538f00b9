// The decomposition M = M_s + M_a into its symmetric part (mutual attention of two tokens) and its antisymmetric part
// (one-way attention, note 15), and the nearest M of a layer with one shared weight for queries and keys (note 16). To
// include biases, pass the weights of Augment.
#pragma once

#include "qkv/algebra/projection.h"

namespace qkv::algebra {

/// (M + Mᵀ) / 2. The diagonal of the logits on common tokens depends on this part only. Throws Error unless M is
/// square.
Tensor<double> SymmetricPart(View<const double> matrix);

/// (M − Mᵀ) / 2. S_ij − S_ji = 2 s x_i M_a x_jᵀ. Throws Error unless M is square.
Tensor<double> AntisymmetricPart(View<const double> matrix);

/// (‖M_s‖² − ‖M_a‖²) / ‖M‖² = tr(M²) / ‖M‖² in [−1, 1]: 1 symmetric, −1 antisymmetric, about 0 if random.
/// 0 when M is zero. Throws Error unless M is square.
double SymmetryScore(View<const double> matrix);

/// The same of M = W_Qᵀ W_K from weights [E, D]: tr((W_K W_Qᵀ)²) / tr(W_Q W_Qᵀ · W_K W_Kᵀ), E×E matrices only.
double SymmetryScore(View<const double> query, View<const double> key);

/// An approximation of M by Wᵀ diag(signs) W.
struct SymmetricFit {
  Tensor<double> weight;         // W [rank, D], rows in descending order of their eigenvalues' magnitude
  Tensor<double> signs;          // [rank], 1 or −1; 0 for rows beyond the rank that can be fitted
  double residual = 0;           // ‖M − Wᵀ diag(signs) W‖_F, computed without forming either
  double residual_relative = 0;  // relative to ‖M‖_F
};

/// The shared weight W_Q = W_K = W [rank, D] with the least ‖W_QᵀW_K − WᵀW‖_F: the greatest positive eigenvalues of M_s
/// (Higham 1988, "Computing a nearest symmetric positive semidefinite matrix", truncated to this rank). The residual
/// comprises ‖M_a‖ and every negative or omitted eigenvalue. By a QR of [W_Qᵀ W_Kᵀ] and an eigenproblem of size 2E.
/// Throws Error unless both weights are [E, D] and 1 <= rank <= D.
SymmetricFit FitShared(View<const double> query, View<const double> key, int64_t rank);

/// The same with signs: the symmetric, indefinite U Λ Uᵀ of this rank, strictly more expressive than a shared weight.
SymmetricFit FitSymmetric(View<const double> query, View<const double> key, int64_t rank);

}  // namespace qkv::algebra
