// A linear layer in training, forward and backward, with weights as they are stored. The products are
// simd/gemm/matmul.h.
#pragma once

#include "qkv/core/tensor.h"
#include "qkv/simd/gemm/gemm.h"

namespace qkv::nn {

/// Weights (T const) or, in the same places, their gradients.
template <typename T>
struct LinearParameters {
  View<T> weight;  // [O, I]
  View<T> bias;    // [O], or empty

  bool empty() const { return weight.empty(); }
  operator LinearParameters<const T>() const { return {weight, bias}; }
};

/// y = x Wᵀ + b, + residual where it is given. x: [R, I]; y, residual: [R, O]; rows may be strided; residual may be y.
/// precision: what the product's factors may be rounded to, see simd::MatMul. Throws Error when the shapes do not fit.
template <typename T>
void LinearForward(View<const T> x, const LinearParameters<const T>& p, View<T> y, View<const T> residual = {},
                   simd::Precision precision = simd::Precision::kFloat32);

/// Adds dyᵀ x to d.weight and the sum of the rows of dy to d.bias, where they are not empty; writes dy W to dx, or adds
/// it, unless dx is empty. x, dx: [R, I]; dy: [R, O]; rows may be strided; dx may be x; without d.weight, x is not
/// read. The same bits for any number of threads. Throws Error when the shapes do not fit.
template <typename T>
void LinearBackward(View<const T> x, const LinearParameters<const T>& p, View<const T> dy, View<T> dx, bool add,
                    const LinearParameters<T>& d, simd::Precision precision = simd::Precision::kFloat32);

}  // namespace qkv::nn
