// Forward pass of a linear layer: y = epilogue(x Wᵀ + b). Not here: the product itself (simd/gemm/gemm.h) and training
// (training/linear.h).
#pragma once

#include "qkv/core/tensor.h"
#include "qkv/nn/rows.h"
#include "qkv/simd/gemm/gemm.h"

namespace qkv::nn {

template <typename T>
struct Linear {
  simd::PackedMatrix<T> weight;  // [outputs, inputs]; gated: [2·outputs, inputs]
  Tensor<T> bias;                // [outputs] (gated: [2·outputs]), or empty

  bool empty() const { return weight.outputs() == 0; }
  /// True if the layer reads rows in chunks (see simd::Gemm) without copying them.
  bool reads_chunks() const {
    return !empty() && weight.precision() == simd::Precision::kFloat32 && weight.inputs() % simd::kRowChunk == 0;
  }
};

/// Epilogue of a linear layer: y = residual + scale · activation(x Wᵀ + b), or, gated, residual + scale ·
/// (activation(g) · v), where g and v are the halves of x Wᵀ + b.
template <typename T>
struct LinearOutput {
  simd::Activation activation = simd::Activation::kNone;
  const Tensor<T>* scale = nullptr;  // [outputs] (LayerScale)
  View<const T> residual = {};       // [rows, outputs]; may be y
};

/// x: [rows, inputs]; y: [rows, outputs] or, split into heads, [rows, H, E]; rows may be strided. Throws Error if the
/// shapes do not fit.
template <typename T>
void LinearForward(const Input<T>& x, const Linear<T>& layer, View<T> y, const LinearOutput<T>& output = {});

}  // namespace qkv::nn
