// Matrix products with weights that were packed once: y = epilogue(x Wᵀ).
#pragma once

#include <cstdint>

#include "qkv/core/tensor.h"
#include "qkv/simd/elementwise.h"

namespace qkv::simd {

/// A linear layer's weights in the panel order of the active kernels.
template <typename T>
class PackedMatrix {
 public:
  PackedMatrix() = default;
  /// w: [N, K], a row for each output, as PyTorch's nn.Linear stores it. Any strides.
  explicit PackedMatrix(View<const T> w);

  int64_t outputs() const { return N_; }  // N
  int64_t inputs() const { return K_; }   // K
  int64_t panel() const { return panels_.rank() == 3 ? panels_.dim(2) : 0; }
  const T* data() const { return panels_.data(); }

 private:
  int64_t N_ = 0, K_ = 0;
  Tensor<T> panels_;  // [ceil(N / panel)][K][panel], zero-padded; panel is the active kernels' width
};

/// What happens to a product before it is stored: y = residual + scale · activation(product + bias).
template <typename T>
struct Epilogue {
  const T* bias = nullptr;  // [N] or null
  Activation activation = Activation::kNone;
  const T* scale = nullptr;     // [N] (LayerScale) or null
  const T* residual = nullptr;  // [M, N] with rows residual_stride apart, or null; may be y
  int64_t residual_stride = 0;
};

/// y[M, N] = epilogue(x[M, K] Wᵀ). Rows may be strided, columns are dense; x and y must not overlap.
/// A row's result does not depend on M, on the other rows, or on the number of threads.
/// Throws Error when the shapes do not fit, or w was packed for another instruction set.
template <typename T>
void Gemm(View<const T> x, const PackedMatrix<T>& w, const Epilogue<T>& epilogue, View<T> y);

}  // namespace qkv::simd
