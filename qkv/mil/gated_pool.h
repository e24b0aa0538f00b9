// Gated attention over the tiles of a bag in training, forward and backward (Ilse et al. 2018, eq. 9). Not here:
// inference with packed weights (gated_head.h).
#pragma once

#include <cstdint>

#include "qkv/core/arena.h"
#include "qkv/core/tensor.h"
#include "qkv/nn/training/dropout.h"
#include "qkv/nn/training/linear.h"

namespace qkv::mil {

/// Weights (T const), or gradients with the same layout.
template <typename T>
struct GatedPoolParameters {
  nn::LinearParameters<T> a, b;   // [Z, F]
  nn::LinearParameters<T> score;  // [1, Z]
};

/// Kept by the forward pass, in the arena passed to it.
template <typename T>
struct GatedPoolCache {
  View<T> a, b;                  // [N, Z]: tanh(A h), σ(B h)
  View<T> dropped_a, dropped_b;  // after dropout; a and b without
  View<T> z;                     // [N, Z], their product
  View<T> scores, weights;       // [N, 1], before and after the softmax
};

/// out = Σ_i w_i h_i. h: [N, F], rows may be strided; out: [1, F]. Dropout of a, and with the next seed of b. Throws
/// Error if the shapes do not fit.
template <typename T>
void GatedPoolForward(View<const T> h, const GatedPoolParameters<const T>& p, const nn::Dropout& dropout, View<T> out,
                      GatedPoolCache<T>& cache, Arena& arena);

/// Overwrites dh, [N, F], dense; adds the gradients of the weights to d. dout: [1, F].
template <typename T>
void GatedPoolBackward(View<const T> h, const GatedPoolParameters<const T>& p, const nn::Dropout& dropout,
                       const GatedPoolCache<T>& cache, View<const T> dout, View<T> dh, const GatedPoolParameters<T>& d,
                       Arena& arena);

}  // namespace qkv::mil
