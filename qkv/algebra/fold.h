// Folds the LayerNorm before a projection into the projection (note 4).
#pragma once

#include "qkv/algebra/projection.h"

namespace qkv::algebra {

/// The projection of x̂ that equals `projection` of LayerNorm(x) = γ ∘ x̂ + β: W' = W diag(γ), b' = b + W β. Exact.
/// With a nonzero β, a projection without bias gets one. γ, β: [D]; β may be empty, as in RMSNorm, to which folding
/// applies as well. Throws Error if the shapes do not fit.
Projection FoldLayerNorm(const ProjectionView& projection, View<const double> gamma, View<const double> beta);

/// W P, P = I − 11ᵀ/D: subtracts each row's mean. Exact for inputs whose features sum to zero, as in a LayerNorm before
/// its γ and β (so after FoldLayerNorm), but not for RMSNorm. M becomes P M P. Take spectra after it, since inputs have
/// no component along 1.
Projection Centre(const ProjectionView& projection);

/// P M P of a square M without known factors. Throws Error unless M is square.
Tensor<double> CentreBoth(View<const double> matrix);

/// P W: subtracts the mean of the outputs. For W_O [D, E], whose outputs the next LayerNorm centres.
Tensor<double> CentreOutputs(View<const double> weight);

/// x̂ = (x − mean) / sqrt(var + eps) of each row: the input of a folded projection. [N, D].
Tensor<double> Normalise(View<const double> tokens, double eps);

}  // namespace qkv::algebra
