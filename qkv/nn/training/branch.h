// Scales a branch of a block and adds it to the residual in training, forward and backward: LayerScale (Touvron et al.
// 2021) and stochastic depth. Without either, the last linear layer adds the residual itself.
#pragma once

#include "qkv/core/tensor.h"

namespace qkv::nn {

/// y = x + factor_b · scale · output for each image b.
/// output, x, y: [B, N, D], any stride between images and rows; y may be output or x; scale: [D], or empty (1);
/// factors: [B], see DrawBranchFactors, or empty (1). Throws Error if the shapes do not fit.
template <typename T>
void BranchForward(View<const T> output, View<const T> scale, View<const T> factors, View<const T> x, View<T> y);

/// doutput = factor_b · scale · dy; adds Σ factor_b · output · dy over all rows to dscale unless dscale is empty (then
/// output is not read). doutput may be dy or output. Same bits for any number of threads.
template <typename T>
void BranchBackward(View<const T> output, View<const T> scale, View<const T> factors, View<const T> dy, View<T> doutput,
                    View<T> dscale);

}  // namespace qkv::nn
