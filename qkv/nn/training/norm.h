// LayerNorm and RMSNorm in training, forward and backward. Not here: the loops over a row (simd/rows/elementwise.h,
// simd/rows/elementwise_backward.h) and inference (nn/norm.h).
#pragma once

#include "qkv/core/tensor.h"
#include "qkv/simd/rows/elementwise.h"

namespace qkv::nn {

/// Weights (T const), or gradients with the same layout.
template <typename T>
struct NormParameters {
  View<T> gamma;  // [D]; empty: 1
  View<T> beta;   // [D]; empty: 0
  simd::NormKind kind = simd::NormKind::kLayer;
  double eps = 1e-6;

  bool empty() const { return gamma.empty() && beta.empty(); }
  operator NormParameters<const T>() const { return {gamma, beta, kind, eps}; }
};

/// y = norm(x) · gamma + beta for each row, with the same bits as inference. moments, [R, 2], dense, receives mean (0
/// for kRms) and 1 / sqrt(var + eps).
/// x, y: [R, D] with strided rows; y may be x. Throws Error if the shapes do not fit.
template <typename T>
void NormForward(View<const T> x, const NormParameters<const T>& p, View<T> y, View<T> moments);

/// Recomputes y from the moments, if it was not kept.
template <typename T>
void Renormalise(View<const T> x, View<const T> moments, const NormParameters<const T>& p, View<T> y);

/// Adds to d.gamma and d.beta, unless they are empty. Writes dx, or with `add` adds to it, unless dx is empty.
/// x, dy, dx: [R, D] with strided rows; dx may be dy or x; moments: as NormForward left them. Same bits for any number
/// of threads. Throws Error if the shapes do not fit.
template <typename T>
void NormBackward(View<const T> x, View<const T> moments, const NormParameters<const T>& p, View<const T> dy,
                  View<T> dx, bool add, const NormParameters<T>& d);

}  // namespace qkv::nn
