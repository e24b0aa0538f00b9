// A linear layer in training, forward and backward, with weights as stored. Not here: the products (simd/gemm/matmul.h)
// and inference (nn/linear.h).
#pragma once

#include "qkv/core/tensor.h"
#include "qkv/simd/gemm/gemm.h"

namespace qkv::nn {

/// Weights (T const), or gradients with the same layout.
template <typename T>
struct LinearParameters {
  View<T> weight;  // [O, I]
  View<T> bias;    // [O], or empty

  bool empty() const { return weight.empty(); }
  operator LinearParameters<const T>() const { return {weight, bias}; }
};

/// y = x Wᵀ + b (+ residual unless empty). x: [R, I]; y, residual: [R, O]; rows may be strided; residual may be y.
/// precision: of the product's factors, see simd::MatMul. Throws Error if the shapes do not fit.
template <typename T>
void LinearForward(View<const T> x, const LinearParameters<const T>& p, View<T> y, View<const T> residual = {},
                   simd::Precision precision = simd::Precision::kFloat32);

/// Adds dyᵀ x to d.weight and the sum of the rows of dy to d.bias, unless they are empty. Writes dy W to dx, or with
/// `add` adds it, unless dx is empty. x, dx: [R, I]; dy: [R, O]; rows may be strided; dx may be x; without d.weight, x
/// is not read. Same bits for any number of threads. Throws Error if the shapes do not fit.
template <typename T>
void LinearBackward(View<const T> x, const LinearParameters<const T>& p, View<const T> dy, View<T> dx, bool add,
                    const LinearParameters<T>& d, simd::Precision precision = simd::Precision::kFloat32);

}  // namespace qkv::nn
