#include "qkv/nn/weights_request.h"

#include <algorithm>

#include "qkv/core/error.h"
#include "qkv/core/parallel.h"

namespace qkv::nn {
namespace {

// Weights per call of `visit`: 4 MiB of floats, which fit the caches.
constexpr int64_t kVisitedWeights = int64_t{1} << 20;
// Minimum rows per call of `visit`: the panels of the kernels have up to 16 rows.
constexpr int64_t kVisitedRows = 16;

// The heads [begin, end) of a view, or the whole view if all heads share it.
template <typename T>
View<T> SliceHeads(View<T> view, int64_t begin, int64_t end) {
  return view.empty() || view.dim(1) == 1 ? view : view.slice(1, begin, end);
}

// The end of the requested heads, of H.
template <typename T>
int64_t HeadEnd(const WeightsRequest<T>& request, int64_t H) {
  const int64_t begin = request.head_begin, end = request.head_end == 0 ? H : request.head_end;
  Require(0 <= begin && begin < end && end <= H, "attention: no heads {}..{} among {}", begin, end, H);
  return end;
}

// Calls compute(row, row_end, out) for the requested rows and for a few at a time, out: [B, heads, rows, N_k].
template <typename T, typename Compute>
void ForRows(const WeightsRequest<T>& request, int64_t B, int64_t heads, int64_t N_k, Arena& arena, Compute compute) {
  const int64_t most = std::max(kVisitedWeights / std::max<int64_t>(1, B * heads * N_k), kVisitedRows);
  for (int64_t row = request.row_begin; row < request.row_end; row += most) {
    const Arena::Scope scope(arena);
    const int64_t row_end = std::min(row + most, request.row_end), begin = row - request.row_begin;
    const View<T> out = request.visit ? arena.New<T>({B, heads, row_end - row, N_k})
                                      : request.out.slice(2, begin, begin + row_end - row);
    compute(row, row_end, out);
    if (request.visit) request.visit(row, out);
  }
}

}  // namespace

template <typename T>
void WeightsOfHeads(View<const T> query, View<const T> key, const attention::Options<T>& options, int64_t begin,
                    int64_t end, int64_t row_begin, int64_t row_end, View<T> out) {
  const int64_t group = query.dim(1) / key.dim(1);
  for (int64_t head = begin, next = begin; head < end; head = next) {
    // Heads of one group at a time; without groups, all heads at once.
    next = group == 1 ? end : std::min(end, (head / group + 1) * group);
    attention::Options<T> of_heads = options;
    of_heads.bias = SliceHeads(options.bias, head, next), of_heads.mask = SliceHeads(options.mask, head, next);
    if (!options.sinks.empty()) of_heads.sinks = options.sinks.slice(0, head, next);
    const View<const T> keys = group == 1 ? key.slice(1, head, next) : key.slice(1, head / group, head / group + 1);
    attention::AttentionWeights<T>(query.slice(1, head, next), keys, of_heads, row_begin, row_end,
                                   out.slice(1, head - begin, next - begin));
  }
}

template <typename T>
void WriteRequest(const WeightsRequest<T>& request, View<const T> query, View<const T> key,
                  const attention::Options<T>& options, Arena& arena) {
  const int64_t begin = request.head_begin, end = HeadEnd(request, query.dim(1));
  if (!request.visit) {
    WeightsOfHeads<T>(query, key, options, begin, end, request.row_begin, request.row_end, request.out);
    return;
  }
  ForRows(request, query.dim(0), end - begin, key.dim(2), arena, [&](int64_t row, int64_t row_end, View<T> out) {
    WeightsOfHeads<T>(query, key, options, begin, end, row, row_end, out);
  });
}

template <typename T>
void WriteDifference(const WeightsRequest<T>& request, const MapOperands<T>& first, const MapOperands<T>& second,
                     T lambda, const attention::Options<T>& options, Arena& arena) {
  const int64_t begin = request.head_begin, end = HeadEnd(request, first.query.dim(1));
  ForRows(request, first.query.dim(0), end - begin, first.key.dim(2), arena,
          [&](int64_t row, int64_t row_end, View<T> out) {
            WeightsOfHeads<T>(first.query, first.key, options, begin, end, row, row_end, out);
            const View<T> minus = arena.New<T>(out.shape());
            WeightsOfHeads<T>(second.query, second.key, options, begin, end, row, row_end, minus);
            const int64_t heads = out.dim(1), rows = out.dim(2);
            ParallelFor(out.dim(0) * heads * rows, 16, [&](int64_t first_row, int64_t last_row) {
              for (int64_t i = first_row; i < last_row; ++i) {
                const int64_t b = i / (heads * rows), h = i / rows % heads;
                const T* const from = minus.at(b, h, i % rows);
                T* const to = out.at(b, h, i % rows);
                for (int64_t k = 0; k < out.dim(3); ++k) to[k] -= lambda * from[k];
              }
            });
          });
}

template <typename T>
void CopyRequest(const WeightsRequest<T>& request, View<const T> weights, Arena& arena) {
  const Arena::Scope scope(arena);
  const int64_t end = HeadEnd(request, weights.dim(1));
  Require(request.row_begin >= 0 && request.row_end <= weights.dim(2), "attention: no rows {}..{} among {}",
          request.row_begin, request.row_end, weights.dim(2));
  const View<const T> from = weights.slice(1, request.head_begin, end).slice(2, request.row_begin, request.row_end);
  const View<T> out = request.visit ? arena.New<T>(from.shape()) : request.out;
  for (int64_t b = 0; b < from.dim(0); ++b) {
    for (int64_t h = 0; h < from.dim(1); ++h) {
      for (int64_t i = 0; i < from.dim(2); ++i) std::copy_n(from.at(b, h, i), from.dim(3), out.at(b, h, i));
    }
  }
  if (request.visit) request.visit(request.row_begin, out);
}

#define QKV_INSTANTIATE(T)                                                                                            \
  template void WeightsOfHeads(View<const T>, View<const T>, const attention::Options<T>&, int64_t, int64_t, int64_t, \
                               int64_t, View<T>);                                                                     \
  template void WriteRequest(const WeightsRequest<T>&, View<const T>, View<const T>, const attention::Options<T>&,    \
                             Arena&);                                                                                 \
  template void WriteDifference(const WeightsRequest<T>&, const MapOperands<T>&, const MapOperands<T>&, T,            \
                                const attention::Options<T>&, Arena&);                                                \
  template void CopyRequest(const WeightsRequest<T>&, View<const T>, Arena&);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::nn
