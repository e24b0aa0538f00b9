#include "qkv/nn/attention.h"

#include "qkv/core/parallel.h"
#include "qkv/nn/rows.h"

namespace qkv::nn {
namespace {

// LayerNorm over each head's features, in place. x: [B, H, N, E], dense from the token axis on.
template <typename T>
void NormHeads(View<T> x, const Norm<T>& norm) {
  if (norm.empty()) return;
  const int64_t H = x.dim(1), N = x.dim(2), E = x.dim(3);
  ParallelFor(x.dim(0) * H, 1, [&](int64_t begin, int64_t end) {
    for (int64_t head = begin; head < end; ++head) {
      T* rows = x.at(head / H, head % H);
      simd::LayerNorm<T>(rows, E, N, E, norm.gamma.data(), norm.beta.data(), norm.eps, rows, E);
    }
  });
}

// [B, H, N, E] seen as [B, N, H, E], and the other way round.
template <typename T>
View<T> SwapHeadsAndTokens(View<T> x) {
  return View<T>(x.data(), {x.dim(0), x.dim(2), x.dim(1), x.dim(3)},
                 {x.stride(0), x.stride(2), x.stride(1), x.stride(3)});
}

// The heads of a projection of x, each dense: [B, heads, N, E] in memory of the order [heads, B, N, E], so that one
// product writes those of the whole batch.
template <typename T>
View<T> ProjectToHeads(const Input<T>& x, const Linear<T>& projection, int64_t E, Arena& arena) {
  const int64_t B = x.dim(0), N = x.dim(1), heads = projection.weight.outputs() / E;
  const View<T> memory = arena.New<T>({heads, B, N, E});
  const View<T> out(memory.data(), {B, heads, N, E}, {N * E, B * N * E, E, 1});
  ForEachMatrix([&](const Input<T>& from, View<T> to) { LinearForward<T>(from, projection, to); }, x,
                SwapHeadsAndTokens(out));
  return out;
}

}  // namespace

template <typename T>
void AttentionForward(const Input<T>& x_query, const Input<T>& x, const AttentionLayer<T>& layer,
                      const Tensor<T>* scale, View<const T> residual, View<T> out, Arena& arena,
                      std::span<const WeightsRequest<T>> requests) {
  const Arena::Scope scope(arena);
  const int64_t B = x.dim(0), Nq = x_query.dim(1), H = layer.heads, E = layer.head_width;
  const View<T> query = ProjectToHeads(x_query, layer.query, E, arena);
  const View<T> key_value = ProjectToHeads(x, layer.key_value, E, arena);
  const View<T> key = key_value.slice(1, 0, H), value = key_value.slice(1, H, 2 * H);  // [B, H, N, E]
  NormHeads(query, layer.query_norm);
  NormHeads(key, layer.key_norm);

  const attention::Options<T> options;
  const View<T> joined = arena.New<T>({B, Nq, H, E});
  attention::Attention<T>(query, key, value, options, SwapHeadsAndTokens(joined), arena);
  for (const WeightsRequest<T>& request : requests) {
    attention::AttentionWeights<T>(query, key, options, request.row_begin, request.row_end, request.out);
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
  ForEachMatrix(
      [&](View<T> from, View<T> to, View<const T> rest) {
        LinearForward<T>(from, layer.projection, to, {.scale = scale, .residual = rest});
      },
      rows, out, residual);
}

template void AttentionForward(const Input<float>&, const Input<float>&, const AttentionLayer<float>&,
                               const Tensor<float>*, View<const float>, View<float>, Arena&,
                               std::span<const WeightsRequest<float>>);
template void AttentionForward(const Input<double>&, const Input<double>&, const AttentionLayer<double>&,
                               const Tensor<double>*, View<const double>, View<double>, Arena&,
                               std::span<const WeightsRequest<double>>);

}  // namespace qkv::nn
