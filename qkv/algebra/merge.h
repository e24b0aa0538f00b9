// Merges two matrices into one: M from the queries' and keys' weights, M_OV from the values' and the output's.
// attention/plan decides by shapes if merging saves anything. For rotary positions see rope.h, for normalised queries
// and keys MergeCosine below.
#pragma once

#include "qkv/algebra/projection.h"

namespace qkv::algebra {

/// The logits of a head as a function of the tokens alone (notes 1 and 2):
///     S = s · (X_q M X_kᵀ + 1 (X_k u)ᵀ + (X_q w) 1ᵀ + c)
struct Merged {
  Tensor<double> matrix;      // M = W_Qᵀ W_K, [D_q, D_k], of rank at most E
  Tensor<double> key_term;    // u = W_Kᵀ b_Q, [D_k]; empty without b_Q
  Tensor<double> query_term;  // w = W_Qᵀ b_K, [D_q]; empty without b_K, and with Terms::kSoftmax
  double constant = 0;        // c = b_Q · b_K; 0 with Terms::kSoftmax
};

/// Exact. Without biases M alone (note 1). With biases kExact keeps all four terms, and kSoftmax only M and u: w and c
/// add a constant to each row of the logits, which softmax cancels (note 2). That requires that the logits go unchanged
/// into a softmax over the keys: no normalised queries or keys, rotary positions, sinks, softmax-plus-one, soft cap,
/// added keys (`bias_k`, `add_zero_attn`), sigmoid or ReLU (note 3).
/// All four terms together are the merged matrix [D_q + 1, D_k + 1] of the augmented weights (Augment), for tokens with
/// a one appended (AppendOnes). Throws Error if the shapes do not fit.
Merged Merge(const QueryKeyView& pair, Terms terms);

/// Cosine attention and QK-norm, S_ij = s · q_i·k_j / (‖q_i‖ ‖k_j‖) (note 14): the numerator merges, but the norms
/// depend on W_Q and W_K separately. Each is a quadratic form, ‖W x + b‖² = x·(WᵀW)x + 2 (Wᵀb)·x + b·b, so three D×D
/// matrices are stored: exact, but no saving. A root-mean-square norm only multiplies s by E; gains on normalised
/// features go into the numerator's weights.
struct MergedCosine {
  Merged numerator, query_norm, key_norm;
};

MergedCosine MergeCosine(const QueryKeyView& pair);

/// The contribution of a head to the output of a layer, Σ_j A_ij (W_OV x_j) + bias (note 12).
struct MergedOutput {
  Tensor<double> matrix;  // W_OV = W_O W_V, [D_out, D]
  Tensor<double> bias;    // W_O b_V, [D_out], to add to b_O; empty without b_V
};

/// value: W_V [E, D] and b_V of one head; output: W_O's columns of that head, [D_out, E] (OutputHead). The matrix is
/// always exact. The bias is exact if every row of A sums to 1: not with dropout on the attention weights, sinks or
/// softmax-plus-one. Throws Error if the shapes do not fit.
MergedOutput MergeOutput(const ProjectionView& value, View<const double> output);

/// Folds s into the pair, √s into each factor (E^(-1/4) for s = E^(-1/2)), so that its logits need no scale (note 5).
/// Throws Error unless scale > 0.
QueryKey FoldScale(const QueryKeyView& pair, double scale);

}  // namespace qkv::algebra
