// A block's attention weights as matrices, from a checkpoint of any family: what the algebra works on.
#pragma once

#include <cstdint>

#include "qkv/algebra/projection.h"
#include "qkv/model/checkpoint.h"

namespace qkv::inspect {

/// All heads of one block, as they are stored: nothing is folded or merged.
template <typename T>
struct AttentionWeights {
  int64_t heads = 1;
  Tensor<T> gamma, beta;                     // of the LayerNorm before the projections, [D]
  double eps = 0;                            // of that norm
  algebra::Projection<T> query, key, value;  // [H·E, D] and, unless the model has none, [H·E]
  algebra::Projection<T> output;             // [D, H·E], or empty: the joined heads are the output
};

/// Throws Error when there is no such block or a tensor is not finite.
template <typename T>
AttentionWeights<T> ReadAttention(const model::Checkpoint& checkpoint, int64_t block);

}  // namespace qkv::inspect
