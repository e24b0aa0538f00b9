// Forward pass of LayerNorm and RMSNorm over the last dimension. Not here: the loops over a row
// (simd/rows/elementwise.h) and training (training/norm.h).
#pragma once

#include "qkv/core/arena.h"
#include "qkv/core/tensor.h"
#include "qkv/nn/rows.h"

namespace qkv::nn {

template <typename T>
struct Norm {
  Tensor<T> gamma;  // [D]
  Tensor<T> beta;   // [D], or empty
  T eps = T(1e-6);
  simd::NormKind kind = simd::NormKind::kLayer;
  bool folded = false;  // gamma and beta are folded into the following linear layer, and empty here

  bool empty() const { return gamma.empty() && !folded; }
  simd::NormRule<T> rule() const { return {eps, kind}; }
};

/// y = norm(x) · gamma + beta for each row, see simd::NormKind.
/// x, y: [rows, D] with strided rows; y may be x. Throws Error unless gamma has D elements.
template <typename T>
void NormForward(View<const T> x, const Norm<T>& norm, View<T> y);

/// Input of the layer after the norm, from x [B, N, D]: a normalised copy in `arena` or, if the norm is folded, x
/// itself, which must not change until that layer has read it.
template <typename T>
Input<T> Normalised(View<const T> x, const Norm<T>& norm, Arena& arena);

/// The rows [B, N, D] of x: x itself, or a normalised copy in `arena`.
template <typename T>
View<const T> Materialised(const Input<T>& x, Arena& arena);

}  // namespace qkv::nn
