// Matrix products of operands that were not packed beforehand: what training needs, where weights change at every step.
#pragma once

#include "qkv/core/tensor.h"
#include "qkv/simd/gemm.h"

namespace qkv::simd {

/// A matrix [M, N] seen as [N, M].
template <typename T>
View<T> Transposed(const View<T>& matrix) {
  return View<T>(matrix.data(), {matrix.dim(1), matrix.dim(0)}, {matrix.stride(1), matrix.stride(0)});
}

/// c[M, N] = epilogue(a[M, K] b[K, N]). Of a and of b one axis, whichever, must be dense, so that a linear layer's
/// three products are the same call: y = x Wᵀ, dx = dy W, dW = dyᵀ x. The rows of c are dense; c must overlap neither a
/// nor b. T is float or double. Where c is small and K is long, K is split; the split follows from M, N, K and the
/// instruction set alone, so no result depends on the number of threads. Throws Error when the shapes do not fit or no
/// axis is dense.
template <typename T>
void MatMul(View<const T> a, View<const T> b, const Epilogue<T>& epilogue, View<T> c);

/// c = a b, or += where gradients accumulate.
template <typename T>
void MatMul(View<const T> a, View<const T> b, View<T> c, bool accumulate = false) {
  Epilogue<T> epilogue;
  if (accumulate) epilogue.residual = c.data(), epilogue.residual_stride = c.stride(0);
  MatMul<T>(a, b, epilogue, c);
}

}  // namespace qkv::simd
