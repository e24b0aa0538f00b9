// How a branch of a block joins the residual in training, forward and backward: LayerScale (Touvron et al. 2021) and
// stochastic depth. Where there is neither, a linear layer adds the residual by itself.
#pragma once

#include "qkv/core/tensor.h"

namespace qkv::nn {

/// y = x + factor_b · scale · output for each image b.
/// output, x, y: [B, N, D], any distance from image to image and row to row; y may be output or x; scale: [D], or empty
/// (1); factors: [B], see DrawBranchFactors, or empty (1). Throws Error when the shapes do not fit.
template <typename T>
void BranchForward(View<const T> output, View<const T> scale, View<const T> factors, View<const T> x, View<T> y);

/// doutput = factor_b · scale · dy; adds Σ factor_b · output · dy over all rows to dscale unless that is empty (then
/// output is not read). doutput may be dy or output. The same bits for any number of threads.
template <typename T>
void BranchBackward(View<const T> output, View<const T> scale, View<const T> factors, View<const T> dy, View<T> doutput,
                    View<T> dscale);

}  // namespace qkv::nn
