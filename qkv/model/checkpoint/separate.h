// Expresses attention of any kind as separate W_Q, W_K and W_V, for libraries that have only these, and for algebra.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "qkv/model/checkpoint/stored_blocks.h"
#include "qkv/model/config/separation.h"

namespace qkv::model {

/// Repeats the parts that groups of heads share for each head. shared: [G, n]; each: [H, n].
template <typename T>
void RepeatForHeads(View<const T> shared, View<T> each) {
  const int64_t group = each.dim(0) / shared.dim(0);
  for (int64_t h = 0; h < each.dim(0); ++h) std::copy_n(shared.row(h / group), each.dim(1), each.row(h));
}

/// The projections of all heads of a layer: queries and keys [H·r, D], values [H·E, D]; biases [rows], or empty. Keys
/// and values of cross-attention have the width of the source's tokens in place of D.
template <typename T>
struct QueryKeyValue {
  Tensor<T> query, query_bias, key, key_bias, value, value_bias;
};

/// Queries and keys with the same scores s · (W_Q x + b_Q)·(W_K x + b_K), s = 1 / sqrt(E), as the block's own kind.
/// Shared: the same matrix twice; symmetric: ΛU and U; merged: Mᵀ with the bias u, and the identity of D features for
/// each head. Throws Error if scores do not depend on tokens, there is no such block, or a tensor is not finite.
template <typename T>
QueryKeyValue<T> ReadQueryKeyValue(const StoredBlocks& blocks, int64_t block);
/// Those of the block's cross-attention. Throws Error likewise, and if it has none.
template <typename T>
QueryKeyValue<T> ReadCrossQueryKeyValue(const StoredBlocks& blocks, int64_t block);

/// Queries, keys and values stacked, each head's queries and keys padded to E: attn.qkv.weight [3·H·E, D],
/// attn.qkv.bias [3·H·E] or empty. Throws Error with SeparationObstruction.
template <typename T>
struct FusedProjection {
  Tensor<T> weight, bias;
};
template <typename T>
FusedProjection<T> ReadFusedProjection(const Checkpoint& checkpoint, int64_t block);

}  // namespace qkv::model
