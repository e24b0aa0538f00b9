// The queries and keys of a whole model, head by head.
#pragma once

#include <vector>

#include "qkv/algebra/logits.h"
#include "qkv/inspect/weights.h"
#include "qkv/lab/rewrite.h"

namespace qkv::lab {

/// Of the heads of one block.
using HeadPairs = std::vector<algebra::QueryKey<double>>;

/// A block's heads, each with weights of its own.
HeadPairs PairsOf(const inspect::AttentionWeights<double>& layer);

/// qk.query, qk.key and v of a block, weights and biases: those of kind `low_rank`.
AttentionTensors ApartTensors(const HeadPairs& pairs, const inspect::AttentionWeights<double>& layer);

/// The same as one projection, qkv.weight and qkv.bias: that of kind `separate`.
AttentionTensors FusedTensors(const HeadPairs& pairs, const inspect::AttentionWeights<double>& layer);

/// v.weight and v.bias of a block.
void AddValues(const inspect::AttentionWeights<double>& layer, AttentionTensors* tensors);

}  // namespace qkv::lab
