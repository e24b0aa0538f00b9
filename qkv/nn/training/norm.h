// LayerNorm and RMSNorm in training, forward and backward. The row arithmetic is simd/rows/elementwise.h and
// elementwise_backward.h.
#pragma once

#include "qkv/core/tensor.h"
#include "qkv/simd/rows/elementwise.h"

namespace qkv::nn {

/// Weights (T const) or, in the same places, their gradients.
template <typename T>
struct NormParameters {
  View<T> gamma;  // [D]; empty: 1
  View<T> beta;   // [D]; empty: 0
  simd::NormKind kind = simd::NormKind::kLayer;
  double eps = 1e-6;

  bool empty() const { return gamma.empty() && beta.empty(); }
  operator NormParameters<const T>() const { return {gamma, beta, kind, eps}; }
};

/// y = norm(x) · gamma + beta for each row, the same bits as in inference; moments [R, 2], dense, gets mean (0 for
/// kRms) and 1 / sqrt(var + eps).
/// x, y: [R, D] with strided rows; y may be x. Throws Error when the shapes do not fit.
template <typename T>
void NormForward(View<const T> x, const NormParameters<const T>& p, View<T> y, View<T> moments);

/// y once more from its moments, for those who did not keep it.
template <typename T>
void Renormalise(View<const T> x, View<const T> moments, const NormParameters<const T>& p, View<T> y);

/// Adds to d.gamma and d.beta, where they are not empty; writes dx, or adds to it, unless dx is empty.
/// x, dy, dx: [R, D] with strided rows; dx may be dy or x; moments: as NormForward left them.
/// The same bits for any number of threads. Throws Error when the shapes do not fit.
template <typename T>
void NormBackward(View<const T> x, View<const T> moments, const NormParameters<const T>& p, View<const T> dy,
                  View<T> dx, bool add, const NormParameters<T>& d);

}  // namespace qkv::nn
