// Operands of this folder: projections y = W x + b, and the pair of projections that makes a head's queries and keys.
//
// The convention is PyTorch's. A token x is a row of X [N, D]; a weight is stored output by input, W [E, D], so that
// Y = X Wᵀ + 1 bᵀ. The logits of a head are s · Q Kᵀ = s · X W_Qᵀ W_K Xᵀ, and M = W_Qᵀ W_K is [D, D]. Papers in which W
// acts from the right (W [D, E], M = W_Q W_Kᵀ) have the transposed weights and the same M.
// "Note N" in the comments of this folder refers to the statements of docs/algebra.md.
#pragma once

#include <cstdint>

#include "qkv/core/tensor.h"

namespace qkv::algebra {

/// A view of y = W x + b. Weights may have any strides.
template <typename T>
struct ProjectionView {
  View<const T> weight;  // [E, D]
  View<const T> bias;    // [E], or empty
};

/// y = W x + b.
template <typename T>
struct Projection {
  Tensor<T> weight;  // [E, D]
  Tensor<T> bias;    // [E], or empty

  operator ProjectionView<T>() const { return {weight, bias.empty() ? View<const T>() : bias.view()}; }
};

/// The queries' and the keys' projection of one head; D may differ between the two (cross-attention).
template <typename T>
struct QueryKeyView {
  ProjectionView<T> query;  // W_Q [E, D_q], b_Q
  ProjectionView<T> key;    // W_K [E, D_k], b_K
};

template <typename T>
struct QueryKey {
  Projection<T> query;  // W_Q [E, D_q], b_Q
  Projection<T> key;    // W_K [E, D_k], b_K

  operator QueryKeyView<T>() const { return {query, key}; }
};

/// Which logits are preserved. Softmax cancels terms that are constant along a row, so the terms in b_K drop out.
enum class Terms {
  kExact,    // the logits themselves
  kSoftmax,  // up to a constant per query: equal attention, if softmax follows the logits directly and normalises every
             // row over its own keys (notes 2 and 3)
};

/// Head h of a layer of `heads` heads whose outputs are stored head by head: rows [hE, (h + 1)E). Throws Error if
/// `heads` does not divide the outputs or h is out of range.
template <typename T>
ProjectionView<T> Head(const ProjectionView<T>& layer, int64_t h, int64_t heads);

/// The columns of an output projection W_O [D, H·E] that read head h: [D, E]. Throws Error as Head does.
template <typename T>
View<const T> OutputHead(View<const T> output, int64_t h, int64_t heads);

/// The transposed view.
template <typename T>
View<const T> Transpose(View<const T> matrix);

/// [W b], [E, D + 1]: the bias-free projection of tokens with a one appended. b = 0 if there is none.
template <typename T>
Tensor<T> Augment(const ProjectionView<T>& projection);

/// [X 1], [N, D + 1].
template <typename T>
Tensor<T> AppendOnes(View<const T> tokens);

/// Y = X Wᵀ + 1 bᵀ, [N, E], of X [N, D]. Throws Error if the shapes do not fit.
template <typename T>
Tensor<T> Apply(const ProjectionView<T>& projection, View<const T> tokens);

}  // namespace qkv::algebra
