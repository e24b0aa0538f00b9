// Query tokens that wait: before the block that they enter, a pass computes the other tokens alone. Outside of the pass
// every block has all tokens. A waiting token stays as it is and attends to itself only; no other attends to it.
#pragma once

#include <vector>

#include "qkv/core/arena.h"
#include "qkv/core/tensor.h"
#include "qkv/nn/attention.h"

namespace qkv::model {

/// Where waiting tokens are among all tokens of an image: [begin, begin + count).
struct WaitingQueries {
  int64_t begin = 0, count = 0;

  int64_t end() const { return begin + count; }
};

/// Inserts the queries, [count, D], into each image of x, [B, N − count, D]. out: [B, N, D]. All are dense. Throws
/// Error if the shapes do not fit.
template <typename T>
void InsertQueries(View<const T> x, View<const T> queries, int64_t begin, View<T> out);

/// The tokens [B, N, D] without the waiting ones: [B, N − count, D], in `arena`.
template <typename T>
View<T> WithoutQueries(View<const T> tokens, const WaitingQueries& waiting, Arena& arena);

/// Requests for the attention weights of a block in which the queries wait, from requests for all tokens: the new
/// requests are for the other tokens alone, and write or visit what the original ones ask for, in the order of rows.
/// Rows of waiting tokens are complete when this returns if no other row is requested. `requests` must outlive the
/// result.
template <typename T>
std::vector<nn::WeightsRequest<T>> RequestsWithoutQueries(std::span<const nn::WeightsRequest<T>> requests, int64_t B,
                                                          int64_t heads, const WaitingQueries& waiting, int64_t tokens);

}  // namespace qkv::model
