// Heads of a model of masks (EoMT, Kerssies et al. 2025): classes of its query tokens, and their masks as products with
// the patches, whose grid is doubled before. Inference only.
#pragma once

#include <array>
#include <vector>

#include "qkv/core/arena.h"
#include "qkv/nn/linear.h"
#include "qkv/nn/norm.h"

namespace qkv::nn {

/// Doubles both sides of a grid of tokens: norm(smooth(activation(expand(x)))).
template <typename T>
struct GridDoubling {
  Linear<T> expand;  // a transposed convolution of 2×2 with stride 2: [4·D, D], outputs (row, column, feature)
  Tensor<T> smooth;  // a convolution of 3×3 of each feature, without bias, zeros outside: [3, 3, D]
  Norm<T> norm;      // over D
};

template <typename T>
struct MaskHead {
  simd::Activation activation = simd::Activation::kGelu;
  Linear<T> classes;                 // [C + 1, D], the last: no object
  std::array<Linear<T>, 3> queries;  // an MLP, [D, D] each, with the activation between its layers
  std::vector<GridDoubling<T>> doublings;

  bool empty() const { return classes.empty(); }
};

/// The tokens of one image, after the final norm.
template <typename T>
struct MaskTokens {
  View<const T> queries;  // [Q, D], dense
  View<const T> patches;  // [grid_height · grid_width, D], dense
  int64_t grid_height = 0, grid_width = 0;
};

/// classes: logits [Q, C + 1]; masks: logits [Q, s · grid_height, s · grid_width] with s = 2^doublings. Both dense; an
/// empty one is not computed. Throws Error if the shapes do not fit.
template <typename T>
void MaskHeadForward(const MaskTokens<T>& tokens, const MaskHead<T>& head, View<T> classes, View<T> masks,
                     Arena& arena);

}  // namespace qkv::nn
