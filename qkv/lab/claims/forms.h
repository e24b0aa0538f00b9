// The three forms of attention that the first text compares, under its own names: one projection for queries, keys and
// values; one for each; and one shared by queries and keys. As in the text, scores are not scaled.
#pragma once

#include "qkv/core/tensor.h"

namespace qkv::lab {

struct Attended {
  Tensor<double> scores;   // q kᵀ, [N, N]
  Tensor<double> weights;  // softmax of each row
  Tensor<double> outputs;  // weights · v, [N, E]
};

// x: [N, D]; weights as in the text, features by outputs, [D, E]: q = x w. All throw Error if the shapes do not fit.

Attended unified_attention(View<const double> x, View<const double> w);
Attended separate_attention(View<const double> x, View<const double> w_q, View<const double> w_k,
                            View<const double> w_v);
Attended separate_attention_same_qk(View<const double> x, View<const double> w_qk, View<const double> w_v);

}  // namespace qkv::lab
