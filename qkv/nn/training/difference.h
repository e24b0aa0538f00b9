// The difference of two attention maps in training, with its norm, forward and backward. Not here: the maps, and their
// gradients (training/attention.h).
#pragma once

#include "qkv/core/arena.h"
#include "qkv/core/tensor.h"
#include "qkv/nn/difference.h"
#include "qkv/nn/training/norm.h"

namespace qkv::nn {

/// Kept by the forward pass. All but the moments as matrices [R, H·E], dense.
template <typename T>
struct DifferenceCache {
  View<T> maps[2];           // result of attention by each map
  View<T> difference;        // maps[0] − λ maps[1]
  View<T> moments;           // of the norm, [R·H, 2]
  NormParameters<T> scaled;  // the norm times 1 − LambdaInit
  double lambda = 0;
};

/// joined = norm(maps[0] − λ maps[1]) · (1 − LambdaInit(block)), the norm over each head's features. joined: [R, H·E],
/// dense. Fills all of `cache` but the maps, in memory of `arena`.
template <typename T>
void DifferenceForward(const LambdaVectors<const T>& vectors, const NormParameters<const T>& norm, int64_t block,
                       DifferenceCache<T>& cache, View<T> joined, Arena& arena);

/// Adds the gradients of λ's vectors and of the norm to d and dnorm; overwrites those of the maps, [R, H·E], dense.
template <typename T>
void DifferenceBackward(const LambdaVectors<const T>& vectors, int64_t block, const DifferenceCache<T>& cache,
                        View<const T> djoined, const LambdaVectors<T>& d, const NormParameters<T>& dnorm,
                        const View<T> (&dmaps)[2], Arena& arena);

}  // namespace qkv::nn
