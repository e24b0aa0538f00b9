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
struct ProjectionView {
  View<const double> weight;  // [E, D]
  View<const double> bias;    // [E], or empty
};

/// y = W x + b.
struct Projection {
  Tensor<double> weight;  // [E, D]
  Tensor<double> bias;    // [E], or empty

  operator ProjectionView() const { return {weight, bias.empty() ? View<const double>() : bias.view()}; }
};

/// The queries' and the keys' projection of one head; D may differ between the two (cross-attention).
struct QueryKeyView {
  ProjectionView query;  // W_Q [E, D_q], b_Q
  ProjectionView key;    // W_K [E, D_k], b_K
};

struct QueryKey {
  Projection query;  // W_Q [E, D_q], b_Q
  Projection key;    // W_K [E, D_k], b_K

  operator QueryKeyView() const { return {query, key}; }
};

/// Which logits are preserved. Softmax cancels terms that are constant along a row, so the terms in b_K drop out.
enum class Terms {
  kExact,    // the logits themselves
  kSoftmax,  // up to a constant per query: equal attention, if softmax follows the logits directly and normalises every
             // row over its own keys (notes 2 and 3)
};

/// Head h of a layer of `heads` heads whose outputs are stored head by head: rows [hE, (h + 1)E). Throws Error if
/// `heads` does not divide the outputs or h is out of range.
ProjectionView Head(const ProjectionView& layer, int64_t h, int64_t heads);

/// The columns of an output projection W_O [D, H·E] that read head h: [D, E]. Throws Error as Head does.
View<const double> OutputHead(View<const double> output, int64_t h, int64_t heads);

/// The transposed view.
View<const double> Transpose(View<const double> matrix);

/// [W b], [E, D + 1]: the bias-free projection of tokens with a one appended. b = 0 if there is none.
Tensor<double> Augment(const ProjectionView& projection);

/// [X 1], [N, D + 1].
Tensor<double> AppendOnes(View<const double> tokens);

/// Y = X Wᵀ + 1 bᵀ, [N, E], of X [N, D]. Throws Error if the shapes do not fit.
Tensor<double> Apply(const ProjectionView& projection, View<const double> tokens);

}  // namespace qkv::algebra
