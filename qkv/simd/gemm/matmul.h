// Matrix products of operands that are not packed beforehand: for training, where weights change at every step.
#pragma once

#include "qkv/core/tensor.h"
#include "qkv/simd/gemm/gemm.h"

namespace qkv::simd {

/// A matrix [M, N] seen as [N, M].
template <typename T>
View<T> Transposed(const View<T>& matrix) {
  return View<T>(matrix.data(), {matrix.dim(1), matrix.dim(0)}, {matrix.stride(1), matrix.stride(0)});
}

/// c[M, N] = epilogue(a[M, K] b[K, N]). Of a and of b one axis, either one, must be dense, so that a linear layer's
/// three products are the same call: y = x Wᵀ, dx = dy W, dW = dyᵀ x. The rows of c are dense; c must overlap neither a
/// nor b. T is float or double. If c is small and K is long, K is split; the split follows from M, N, K and the
/// instruction set alone, so no result depends on the number of threads. kBfloat16: a and b are rounded to bfloat16
/// while they are read, sums stay float, if T is float and the machine multiplies bfloat16
/// (Describe(kBfloat16).native); otherwise nothing is rounded. Throws Error when the shapes do not fit, no axis is
/// dense, or for kInt8.
template <typename T>
void MatMul(View<const T> a, View<const T> b, const Epilogue<T>& epilogue, View<T> c,
            Precision precision = Precision::kFloat32);

/// c = a b, or += if gradients accumulate.
template <typename T>
void MatMul(View<const T> a, View<const T> b, View<T> c, bool accumulate = false,
            Precision precision = Precision::kFloat32) {
  Epilogue<T> epilogue;
  if (accumulate) epilogue.residual = c.data(), epilogue.residual_stride = c.stride(0);
  MatMul<T>(a, b, epilogue, c, precision);
}

}  // namespace qkv::simd
