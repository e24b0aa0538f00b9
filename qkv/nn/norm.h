// LayerNorm and RMSNorm over the last dimension, forward. The row arithmetic is simd/rows/elementwise.h.
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
  bool folded = false;  // gamma and beta are in the linear layer that follows, and empty here

  bool empty() const { return gamma.empty() && !folded; }
  simd::NormRule<T> rule() const { return {eps, kind}; }
};

/// y = norm(x) · gamma + beta for each row, see simd::NormKind.
/// x, y: [rows, D] with strided rows; y may be x. Throws Error when D is not gamma's length.
template <typename T>
void NormForward(View<const T> x, const Norm<T>& norm, View<T> y);

/// x [B, N, D] as the layer after the norm reads it: a normalised copy in `arena` or, when the norm is folded, x
/// itself, which may not change until it was read then.
template <typename T>
Input<T> Normalised(View<const T> x, const Norm<T>& norm, Arena& arena);

/// The rows [B, N, D] that x stands for: its own, or a normalised copy in `arena`.
template <typename T>
View<const T> Materialised(const Input<T>& x, Arena& arena);

}  // namespace qkv::nn
