// A block's MLP in training, forward and backward: two linear layers with an activation or a gate in between. Not here:
// inference (nn/mlp.h).
#pragma once

#include "qkv/core/arena.h"
#include "qkv/nn/block_config.h"
#include "qkv/nn/training/linear.h"
#include "qkv/nn/training/norm.h"
#include "qkv/simd/gemm/gemm.h"

namespace qkv::nn {

/// Weights (T const), or gradients with the same layout.
template <typename T>
struct MlpParameters {
  LinearParameters<T> fc1;  // [M, D]; gated [2·M, D], see simd::Gate
  NormParameters<T> norm;   // over M, after the activation (timm's scale_mlp_norm), or empty
  LinearParameters<T> fc2;  // [D, M]
};

struct MlpSettings {
  MlpConfig config;
  simd::Precision precision = simd::Precision::kFloat32;  // of all products, see simd::MatMul
};

/// Kept by the forward pass, in the arena passed to it. The input of fc2 is not kept: the backward pass recomputes it
/// cheaply along with the derivative of the activation.
template <typename T>
struct MlpCache {
  View<T> hidden;   // output of fc1, [R, M] or [R, 2·M]
  View<T> moments;  // of the norm, [R, 2]
};

/// y = residual + mlp(x). x, y, residual: [R, D], strided rows; residual may be y or empty; y may be x. The cache lives
/// in `arena` until the caller's scope ends. Throws Error if the shapes do not fit.
template <typename T>
void MlpForward(View<const T> x, const MlpParameters<const T>& p, const MlpSettings& settings, View<const T> residual,
                View<T> y, MlpCache<T>& cache, Arena& arena);

/// Adds the gradients of the weights to d; writes dx, or with `add` adds to it. x, dy, dx: [R, D], strided rows; dx may
/// be dy, or without `add` x. Overwrites the memory of the cache with gradients. Same bits for any number of threads.
template <typename T>
void MlpBackward(View<const T> x, const MlpParameters<const T>& p, const MlpSettings& settings,
                 const MlpCache<T>& cache, View<const T> dy, View<T> dx, bool add, const MlpParameters<T>& d,
                 Arena& arena);

}  // namespace qkv::nn
