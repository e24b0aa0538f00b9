// LayerNorm over the last dimension, forward. The row arithmetic is simd/elementwise.h.
#pragma once

#include "qkv/core/tensor.h"

namespace qkv::nn {

template <typename T>
struct Norm {
  Tensor<T> gamma;  // [D]
  Tensor<T> beta;   // [D]
  T eps = T(1e-6);

  bool empty() const { return gamma.empty(); }
};

/// y = (x − mean) / sqrt(var + eps) · gamma + beta for each row (Ba, Kiros, Hinton 2016, eq. 3).
/// x, y: [rows, D] with strided rows; y may be x. Throws Error when D is not gamma's length.
template <typename T>
void NormForward(View<const T> x, const Norm<T>& norm, View<T> y);

}  // namespace qkv::nn
