// M = M_s + M_a: what two tokens think of each other alike, and what one thinks of the other but not back (note 15);
// and the nearest M of a layer whose queries and keys share one weight (note 16).
// Biases take part as one more input: give the weights of Augment.
#pragma once

#include "qkv/algebra/projection.h"

namespace qkv::algebra {

/// (M + Mᵀ) / 2. The diagonal of the logits on common tokens sees this part alone. Throws Error unless M is square.
template <typename T>
Tensor<T> SymmetricPart(View<const T> matrix);

/// (M − Mᵀ) / 2. S_ij − S_ji = 2 s x_i M_a x_jᵀ. Throws Error unless M is square.
template <typename T>
Tensor<T> AntisymmetricPart(View<const T> matrix);

/// (‖M_s‖² − ‖M_a‖²) / ‖M‖² = tr(M²) / ‖M‖² in [−1, 1]: 1 symmetric, −1 antisymmetric, about 0 if random.
/// 0 when M is zero. Throws Error unless M is square.
template <typename T>
double SymmetryScore(View<const T> matrix);

/// The same of M = W_Qᵀ W_K from weights [E, D]: tr((W_K W_Qᵀ)²) / tr(W_Q W_Qᵀ · W_K W_Kᵀ), E×E matrices only.
template <typename T>
double SymmetryScore(View<const T> query, View<const T> key);

/// An approximation of M by Wᵀ diag(signs) W.
template <typename T>
struct SymmetricFit {
  Tensor<T> weight;              // W [rank, D], rows in falling order of their eigenvalue's magnitude
  Tensor<T> signs;               // [rank], 1 or −1; 0 where the rank of what can be fitted is less
  double residual = 0;           // ‖M − Wᵀ diag(signs) W‖_F, known without making either
  double residual_relative = 0;  // to ‖M‖_F
};

/// The shared weight W_Q = W_K = W [rank, D] with the least ‖W_QᵀW_K − WᵀW‖_F: the greatest positive eigenvalues of M_s
/// (Higham 1988, "Computing a nearest symmetric positive semidefinite matrix", with the rank cut). The residual
/// counts ‖M_a‖ and every eigenvalue that is negative or left out. By a QR of [W_Qᵀ W_Kᵀ] and an eigenproblem of 2E.
/// Throws Error unless the weights are both [E, D] and 1 <= rank <= D.
template <typename T>
SymmetricFit<T> FitShared(View<const T> query, View<const T> key, int64_t rank);

/// The same with signs: the symmetric, indefinite U Λ Uᵀ of this rank, which is strictly richer than a shared weight.
template <typename T>
SymmetricFit<T> FitSymmetric(View<const T> query, View<const T> key, int64_t rank);

}  // namespace qkv::algebra
