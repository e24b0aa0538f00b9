// Dropout of a layer's outputs (Srivastava et al. 2014) and of whole branches (stochastic depth, Huang et al. 2016) in
// training. What is dropped is a hash of a seed and of the place: of the image and the row within all rows of a step,
// so that it does not matter in what chunks, on which threads or how often a step computes something. The gradient is
// the same call on the gradient.
#pragma once

#include <cstdint>

#include "qkv/core/tensor.h"

namespace qkv::nn {

struct Dropout {
  double probability = 0;  // 0 <= probability < 1; what is kept is divided by 1 − probability
  uint64_t seed = 0;       // of this layer and step
  int64_t first = 0;       // number of the first row (of the first image) in the step
};

/// Drops entries of x in place: [R, D], strided rows, which are rows first, first + 1, … of the step.
/// Throws Error when the probability is none that can be.
template <typename T>
void ApplyDropout(const Dropout& dropout, View<T> x);

/// What each image's branch is multiplied by: 0 or 1 / (1 − probability). factors: [B], for images first, ….
template <typename T>
void DrawBranchFactors(const Dropout& dropout, View<T> factors);

}  // namespace qkv::nn
