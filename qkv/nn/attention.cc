#include "qkv/nn/attention.h"

#include "qkv/core/parallel.h"
#include "qkv/nn/rows.h"

namespace qkv::nn {
namespace {

// LayerNorm over each head's features, in place. x: [B, N, H, E], dense from the head axis on.
template <typename T>
void NormHeads(View<T> x, const Norm<T>& norm) {
  if (norm.empty()) return;
  const int64_t N = x.dim(1), H = x.dim(2), E = x.dim(3);
  ParallelFor(x.dim(0) * N, 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      T* heads = x.at(row / N, row % N);
      simd::LayerNorm<T>(heads, E, H, E, norm.gamma.data(), norm.beta.data(), norm.eps, heads, E);
    }
  });
}

// [B, N, H, E] seen as [B, H, N, E]
template <typename T>
View<T> HeadsFirst(View<T> x) {
  return View<T>(x.data(), {x.dim(0), x.dim(2), x.dim(1), x.dim(3)},
                 {x.stride(0), x.stride(2), x.stride(1), x.stride(3)});
}

}  // namespace

template <typename T>
void AttentionForward(View<const T> x_query, View<const T> x, const AttentionLayer<T>& layer, const Tensor<T>* scale,
                      View<const T> residual, View<T> out, Arena& arena, std::span<const WeightsRequest<T>> requests) {
  const Arena::Scope scope(arena);
  const int64_t B = x.dim(0), N = x.dim(1), Nq = x_query.dim(1), H = layer.heads, E = layer.head_width;
  const View<T> q = arena.New<T>({B, Nq, H * E}), kv = arena.New<T>({B, N, 2 * H * E});
  ForEachMatrix<T>(x_query, q, [&](auto from, auto to) { LinearForward<T>(from, layer.query, to); });
  ForEachMatrix<T>(x, kv, [&](auto from, auto to) { LinearForward<T>(from, layer.key_value, to); });

  const View<T> query = q.reshape({B, Nq, H, E});
  const View<T> key(kv.data(), {B, N, H, E}, {N * 2 * H * E, 2 * H * E, E, 1});
  const View<T> value(kv.data() + H * E, {B, N, H, E}, {N * 2 * H * E, 2 * H * E, E, 1});
  NormHeads(query, layer.query_norm);
  NormHeads(key, layer.key_norm);

  const attention::Options<T> options;
  const View<T> joined = arena.New<T>({B, Nq, H, E});
  attention::Attention<T>(HeadsFirst(query), HeadsFirst(key), HeadsFirst(value), options, HeadsFirst(joined), arena);
  for (const WeightsRequest<T>& request : requests) {
    attention::AttentionWeights<T>(HeadsFirst(query), HeadsFirst(key), options, request.row_begin, request.row_end,
                                   request.out);
  }

  const View<T> rows = joined.reshape({B, Nq, H * E});
  if (!layer.output_norm.empty()) {
    const View<T> all = rows.reshape({B * Nq, H * E});
    NormForward<T>(all, layer.output_norm, all);
  }
  if (layer.projection.empty()) {
    AddScaled<T>(rows, scale, residual, out);
    return;
  }
  ForEachMatrix<T>(rows, out, residual, [&](auto from, auto to, auto rest) {
    LinearForward<T>(from, layer.projection, to, {.scale = scale, .residual = rest});
  });
}

template void AttentionForward(View<const float>, View<const float>, const AttentionLayer<float>&, const Tensor<float>*,
                               View<const float>, View<float>, Arena&, std::span<const WeightsRequest<float>>);
template void AttentionForward(View<const double>, View<const double>, const AttentionLayer<double>&,
                               const Tensor<double>*, View<const double>, View<double>, Arena&,
                               std::span<const WeightsRequest<double>>);

}  // namespace qkv::nn
