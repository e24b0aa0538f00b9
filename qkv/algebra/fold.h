// The LayerNorm before a projection, moved into it (note 4).
#pragma once

#include "qkv/algebra/projection.h"

namespace qkv::algebra {

/// The projection of x̂ that equals `projection` of LayerNorm(x) = γ ∘ x̂ + β: W' = W diag(γ), b' = b + W β. Exact.
/// A β that is not zero gives a projection "without bias" one. γ, β: [D]; β may be empty, as in RMSNorm, for which
/// folding holds as well. Throws Error when the shapes do not fit.
template <typename T>
Projection<T> FoldLayerNorm(const ProjectionView<T>& projection, View<const T> gamma, View<const T> beta);

/// W P, P = I − 11ᵀ/D: each row's mean taken off. Exact for inputs whose features sum to zero, as those of a
/// LayerNorm do before its γ and β (so after FoldLayerNorm), and not for RMSNorm's. M becomes P M P; take spectra
/// after it, since what W reads along 1 is never there.
template <typename T>
Projection<T> Centre(const ProjectionView<T>& projection);

/// P M P of a square M that is known without its factors. Throws Error unless it is square.
template <typename T>
Tensor<T> CentreBoth(View<const T> matrix);

/// P W: the mean of the outputs taken off. For W_O [D, E], whose outputs the next LayerNorm centres.
template <typename T>
Tensor<T> CentreOutputs(View<const T> weight);

/// x̂ = (x − mean) / sqrt(var + eps) of each row: what a folded projection reads. [N, D].
template <typename T>
Tensor<T> Normalise(View<const T> tokens, T eps);

}  // namespace qkv::algebra
