// Attention weights that a caller requests, beside the fused call.
#pragma once

#include <cstdint>
#include <functional>

#include "qkv/attention/attention.h"
#include "qkv/core/arena.h"

namespace qkv::nn {

/// Requests the attention weights of some query rows. They are computed beside the fused call, which stays fused, and
/// written to `out` or, if `out` is empty, streamed a few rows at a time through `visit`.
template <typename T>
struct WeightsRequest {
  int64_t row_begin = 0, row_end = 0;
  View<T> out = {};  // [B, heads, row_end − row_begin, N_k]
  /// weights: [B, heads, rows, N_k], dense, of the queries from `row` on; valid only during the call.
  std::function<void(int64_t row, View<const T> weights)> visit;
  int64_t head_begin = 0, head_end = 0;  // head_end 0: all heads
};

/// The weights of heads [begin, end) and of rows [row_begin, row_end) of the queries. query: [B, H, N_q, r]; key:
/// [B, G, N_k, r]; out: [B, end − begin, row_end − row_begin, N_k].
template <typename T>
void WeightsOfHeads(View<const T> query, View<const T> key, const attention::Options<T>& options, int64_t begin,
                    int64_t end, int64_t row_begin, int64_t row_end, View<T> out);

/// Computes the requested weights. Throws Error for heads that do not exist.
template <typename T>
void WriteRequest(const WeightsRequest<T>& request, View<const T> query, View<const T> key,
                  const attention::Options<T>& options, Arena& arena);

/// The queries and keys of one softmax.
template <typename T>
struct MapOperands {
  View<const T> query, key;  // [B, H, N_q, r], [B, G, N_k, r]
};
/// Computes the requested differences of weights, which may be negative: those of `first` minus λ times those of
/// `second`. Throws Error for heads that do not exist.
template <typename T>
void WriteDifference(const WeightsRequest<T>& request, const MapOperands<T>& first, const MapOperands<T>& second,
                     T lambda, const attention::Options<T>& options, Arena& arena);

/// Copies the requested weights from all, [B, H, N_q, N_k]. Throws Error for heads or rows that do not exist.
template <typename T>
void CopyRequest(const WeightsRequest<T>& request, View<const T> weights, Arena& arena);

}  // namespace qkv::nn
