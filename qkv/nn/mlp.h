// Forward pass of a block's MLP: two linear layers with an activation or a gate in between. Not here: training
// (training/mlp.h).
#pragma once

#include "qkv/core/arena.h"
#include "qkv/nn/linear.h"
#include "qkv/nn/norm.h"
#include "qkv/nn/probe.h"

namespace qkv::nn {

template <typename T>
struct Mlp {
  simd::Activation activation = simd::Activation::kGelu;
  Linear<T> fc1;  // [M, D]; gated (SwiGLU of Shazeer 2020 if the activation is silu): [2·M, D], see simd::Gate
  Norm<T> norm;   // over M, after the activation (timm's scale_mlp_norm), or empty
  Linear<T> fc2;  // [D, M]
};

/// out = residual + scale · mlp(x). x, out, residual: [B, N, D]; residual may be out or empty; scale may be null. tap:
/// sees the hidden features.
template <typename T>
void MlpForward(const Input<T>& x, const Mlp<T>& mlp, const Tensor<T>* scale, View<const T> residual, View<T> out,
                Arena& arena, const Tap<T>& tap = {});

}  // namespace qkv::nn
