// The feed-forward half of a block, forward: two linear layers with an activation, or a gate, between them.
#pragma once

#include "qkv/core/arena.h"
#include "qkv/nn/linear.h"
#include "qkv/nn/norm.h"

namespace qkv::nn {

enum class MlpKind {
  kPlain,      // fc2(a(fc1 x))
  kGateFirst,  // fc2(a(g) · v), fc1's rows are g, then v (SwiGLU of Shazeer 2020 with a = silu)
  kGateLast,   // fc2(v · a(g)), fc1's rows are v, then g
};

template <typename T>
struct Mlp {
  MlpKind kind = MlpKind::kPlain;
  simd::Activation activation = simd::Activation::kGelu;
  Linear<T> fc1;  // [M, D], gated: [2·M, D]
  Norm<T> norm;   // over M, after the activation (timm's scale_mlp_norm), or empty
  Linear<T> fc2;  // [D, M]
};

/// out = residual + scale · mlp(x). x, out, residual: [B, N, D]; residual may be out or empty; scale may be null.
template <typename T>
void MlpForward(View<const T> x, const Mlp<T>& mlp, const Tensor<T>* scale, View<const T> residual, View<T> out,
                Arena& arena);

}  // namespace qkv::nn
