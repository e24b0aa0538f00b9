// Keys and values that attention keeps from call to call.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "qkv/core/tensor.h"

namespace qkv::nn {

template <typename T>
struct AttentionLayer;

/// Some sequences of a KeyValueCache.
template <typename T>
struct CachedRows {
  View<T> key = {};            // [B, G, capacity, r], see KeyValueCache
  View<T> value = {};          // [B, G, capacity, E]
  View<int64_t> lengths = {};  // [B]: number of tokens of each sequence

  bool empty() const { return value.empty(); }
  int64_t tokens() const { return *std::max_element(lengths.data(), lengths.data() + lengths.size()); }  // greatest
  /// All sequences have equally many tokens.
  bool even() const { return *std::min_element(lengths.data(), lengths.data() + lengths.size()) == tokens(); }
};

/// Cached keys and values: of a causal layer's past tokens, or of the source of cross-attention.
template <typename T>
struct KeyValueCache {
  /// Elements of a cache that is made with these arguments.
  static double Elements(const AttentionLayer<T>& layer, int64_t B, int64_t D, int64_t capacity, bool rotary);
  /// An empty cache for `capacity` tokens of width D in each of B sequences.
  KeyValueCache(const AttentionLayer<T>& layer, int64_t B, int64_t D, int64_t capacity, bool rotary);

  /// Sequences [begin, end), to be read and extended.
  CachedRows<T> Rows(int64_t begin, int64_t end);
  CachedRows<T> All() { return Rows(0, value.dim(0)); }
  /// Sequence i becomes what sequence rows[i] was; those from rows.size() on are undefined. Copies only what moves.
  /// rows: any, also twice.
  void Select(std::span<const int64_t> rows);

  Tensor<T> key;    // [B, G, capacity, r]; merged: tokens, [B, 1, capacity, D]; empty if positional or equal to values
  Tensor<T> value;  // [B, G, capacity, E]
  Tensor<int64_t> lengths;  // [B]
};

}  // namespace qkv::nn
