// Dropout of a layer's outputs (Srivastava et al. 2014) and of whole branches (stochastic depth, Huang et al. 2016) in
// training. The random mask is a hash of the seed and the position: the image and the row within all rows of a step. So
// it does not depend on chunks, threads, or how often a step recomputes it. The gradient is the same call on the
// gradient. Not here: dropout of attention weights (attention/attention.h).
#pragma once

#include <cstdint>

#include "qkv/core/tensor.h"

namespace qkv::nn {

struct Dropout {
  double probability = 0;  // 0 <= probability < 1; the remaining entries are divided by 1 − probability
  uint64_t seed = 0;       // for this layer and step
  int64_t first = 0;       // index of the first row (of the first image) in the step
};

/// Drops entries of x in place: [R, D], strided rows, which are rows first, first + 1, … of the step. Throws Error
/// unless 0 <= probability < 1.
template <typename T>
void ApplyDropout(const Dropout& dropout, View<T> x);

/// Factor of each image's branch: 0 or 1 / (1 − probability). factors: [B], for images first, first + 1, ….
template <typename T>
void DrawBranchFactors(const Dropout& dropout, View<T> factors);

}  // namespace qkv::nn
