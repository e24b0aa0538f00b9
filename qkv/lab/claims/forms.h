// The three forms of attention that the first text compares, by its own names: one projection for everything, one for
// each of queries, keys and values, and the second form with one for queries and keys. Scores are not scaled, as there.
#pragma once

#include "qkv/core/tensor.h"

namespace qkv::lab {

struct Attended {
  Tensor<double> scores;   // q kᵀ, [N, N]
  Tensor<double> weights;  // softmax of each row
  Tensor<double> outputs;  // weights · v, [N, E]
};

// x: [N, D]; weights as the text writes them, features by outputs, [D, E]: q = x w. All throw Error when the shapes do
// not fit.

Attended unified_attention(View<const double> x, View<const double> w);
Attended separate_attention(View<const double> x, View<const double> w_q, View<const double> w_k,
                            View<const double> w_v);
Attended separate_attention_same_qk(View<const double> x, View<const double> w_qk, View<const double> w_v);

}  // namespace qkv::lab
