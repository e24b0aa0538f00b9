// The query-key pairs of a model, per head, and their conversion to stored tensors.
#pragma once

#include <vector>

#include "qkv/algebra/logits.h"
#include "qkv/inspect/weights.h"
#include "qkv/lab/rewrite.h"

namespace qkv::lab {

/// The heads of one block.
using HeadPairs = std::vector<algebra::QueryKey>;

/// The pairs of a block's heads; each owns its weights.
HeadPairs MakeHeadPairs(const inspect::AttentionWeights& layer);

/// qk.query, qk.key and v of a block with biases: the layout of kind `low_rank`.
AttentionTensors UnfusedTensors(const HeadPairs& pairs, const inspect::AttentionWeights& layer);

/// The same as one projection, qkv.weight and qkv.bias: the layout of kind `separate`.
AttentionTensors FusedTensors(const HeadPairs& pairs, const inspect::AttentionWeights& layer);

/// Adds v.weight and v.bias of a block.
void AddValues(const inspect::AttentionWeights& layer, AttentionTensors* tensors);

}  // namespace qkv::lab
