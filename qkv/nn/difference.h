// Differential attention (Ye et al. 2024, "Differential Transformer"): the factor λ of the second map. Not here: the
// maps themselves, which are softmax attention (attention.h, training/attention.h).
#pragma once

#include <cstdint>

#include "qkv/core/tensor.h"

namespace qkv::nn {

/// λ_init of a block, counted from 0: λ if its vectors are zero. The difference of the maps, whose weights sum to
/// 1 − λ, is normed and multiplied by 1 − λ_init.
double LambdaInit(int64_t block);

/// The vectors of λ, [e] each, or empty.
template <typename T>
struct LambdaVectors {
  View<T> query[2], key[2];

  bool empty() const { return query[0].empty(); }
};

/// λ = exp(q_1·k_1) − exp(q_2·k_2) + LambdaInit(block).
template <typename T>
double Lambda(const LambdaVectors<const T>& vectors, int64_t block);

/// Adds the gradient of λ to those of its vectors.
template <typename T>
void LambdaBackward(const LambdaVectors<const T>& vectors, double dlambda, const LambdaVectors<T>& d);

}  // namespace qkv::nn
