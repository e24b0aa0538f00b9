// A linear layer, forward: y = epilogue(x Wᵀ + b). The product itself is simd/gemm.h.
#pragma once

#include "qkv/core/tensor.h"
#include "qkv/simd/gemm.h"

namespace qkv::nn {

template <typename T>
struct Linear {
  simd::PackedMatrix<T> weight;  // [outputs, inputs]
  Tensor<T> bias;                // [outputs], or empty

  bool empty() const { return weight.outputs() == 0; }
};

/// What a linear layer can do on the way out: y = residual + scale · activation(x Wᵀ + b).
template <typename T>
struct LinearOutput {
  simd::Activation activation = simd::Activation::kNone;
  const Tensor<T>* scale = nullptr;  // [outputs] (LayerScale)
  View<const T> residual = {};       // [rows, outputs]; may be y
};

/// x: [rows, inputs], y: [rows, outputs]; rows may be strided. Throws Error when the shapes do not fit.
template <typename T>
void LinearForward(View<const T> x, const Linear<T>& layer, View<T> y, const LinearOutput<T>& output = {});

}  // namespace qkv::nn
