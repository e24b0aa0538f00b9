#include "qkv/nn/attention.h"

#include <array>
#include <cmath>

#include "qkv/attention/plan.h"
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

// x with its moments applied: [B, N, D], dense.
template <typename T>
View<const T> Materialised(const Input<T>& x, Arena& arena) {
  if (x.moments.empty()) return x.x;
  const int64_t B = x.dim(0), N = x.dim(1), D = x.dim(2);
  const View<T> out = arena.New<T>({B, N, D});
  ParallelFor(B * N, 16, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T *from = x.x.at(row / N, row % N), *moments = x.moments.at(row / N, row % N);
      T* to = out.at(row / N, row % N);
      for (int64_t d = 0; d < D; ++d) to[d] = (from[d] - moments[0]) * moments[1];
    }
  });
  return out;
}

// Attention in the order of absorbed heads. query: [B, H, N_q, E]; joined: [B, N_q, H, E].
template <typename T>
void AbsorbedAttention(View<const T> query, const Input<T>& x, const AbsorbedHeads<T>& heads, View<T> joined,
                       Arena& arena) {
  const int64_t B = query.dim(0), H = query.dim(1), Nq = query.dim(2), D = x.dim(2);
  const View<const T> tokens = Materialised(x, arena);
  const View<T> carried = arena.New<T>({B, H, Nq, D}), sums = arena.New<T>({B, H, Nq, D});
  const auto head_of = [](auto view, int64_t h) {  // [B, N_q, …] of [B, H, N_q, …]
    auto head = view.slice(1, h, h + 1);
    return decltype(head)(head.data(), {head.dim(0), head.dim(2), head.dim(3)},
                          {head.stride(0), head.stride(2), head.stride(3)});
  };
  for (int64_t h = 0; h < H; ++h) {
    const Linear<T>& key = heads.key[static_cast<size_t>(h)];
    ForEachMatrix([&](View<const T> from, View<T> to) { LinearForward<T>(from, key, to); }, head_of(query, h),
                  head_of(carried, h));
  }
  // All heads look at the same tokens: they are more queries of one head.
  attention::Options<T> options;
  options.scale = T(1) / std::sqrt(static_cast<T>(query.dim(3)));
  const View<const T> keys(tokens.data(), {B, 1, x.dim(1), D}, {tokens.stride(0), 0, tokens.stride(1), 1});
  attention::Attention<T>(carried.reshape({B, 1, H * Nq, D}), keys, keys, options, sums.reshape({B, 1, H * Nq, D}),
                          arena);
  for (int64_t h = 0; h < H; ++h) {
    const Linear<T>& value = heads.value[static_cast<size_t>(h)];
    ForEachMatrix([&](View<const T> from, View<T> to) { LinearForward<T>(from, value, to); },
                  View<const T>(head_of(sums, h)), head_of(SwapHeadsAndTokens(joined), h));
  }
}

// Weights that are visited are made this many at a time: 4 MiB of floats, which stay in the caches.
constexpr int64_t kVisitedWeights = int64_t{1} << 20;
// Rows of a visit at least: the panels of the kernels are up to 16 high.
constexpr int64_t kVisitedRows = 16;

// Gives a request its weights. query: [B, H, N_q, E]; key: [B, H, N_k, E].
template <typename T>
void Answer(const WeightsRequest<T>& request, View<const T> query, View<const T> key,
            const attention::Options<T>& options, Arena& arena) {
  const int64_t H = query.dim(1), head_end = request.head_end == 0 ? H : request.head_end;
  Require(0 <= request.head_begin && request.head_begin < head_end && head_end <= H,
          "attention: no heads {}..{} among {}", request.head_begin, head_end, H);
  query = query.slice(1, request.head_begin, head_end), key = key.slice(1, request.head_begin, head_end);
  if (!request.visit) {
    attention::AttentionWeights<T>(query, key, options, request.row_begin, request.row_end, request.out);
    return;
  }
  const int64_t B = query.dim(0), heads = query.dim(1), N_k = key.dim(2);
  const int64_t most = std::max(kVisitedWeights / std::max<int64_t>(1, B * heads * N_k), kVisitedRows);
  for (int64_t row = request.row_begin; row < request.row_end; row += most) {
    const Arena::Scope scope(arena);
    const int64_t end = std::min(row + most, request.row_end);
    const View<T> weights = arena.New<T>({B, heads, end - row, N_k});
    attention::AttentionWeights<T>(query, key, options, row, end, weights);
    request.visit(row, weights);
  }
}

// The order of keys and values for all tokens; requests get the weights. query, joined as above; joined may be empty.
template <typename T>
void ProjectedAttention(View<const T> query, const Input<T>& x, const AttentionLayer<T>& layer, View<T> joined,
                        Arena& arena, std::span<const WeightsRequest<T>> requests) {
  const int64_t H = layer.heads;
  const View<T> key_value = ProjectToHeads(x, layer.key_value, layer.head_width, arena);
  const View<T> key = key_value.slice(1, 0, H), value = key_value.slice(1, H, 2 * H);  // [B, H, N, E]
  NormHeads(key, layer.key_norm);
  attention::Options<T> options;
  options.bf16 = layer.bf16;
  if (!joined.empty()) attention::Attention<T>(query, key, value, options, SwapHeadsAndTokens(joined), arena);
  for (const WeightsRequest<T>& request : requests) Answer<T>(request, query, key, options, arena);
}

}  // namespace

template <typename T>
void AttentionForward(const Input<T>& x_query, const Input<T>& x, const AttentionLayer<T>& layer,
                      const Tensor<T>* scale, View<const T> residual, View<T> out, Arena& arena,
                      std::span<const WeightsRequest<T>> requests) {
  const Arena::Scope scope(arena);
  const int64_t B = x.dim(0), Nq = x_query.dim(1), H = layer.heads, E = layer.head_width;
  const View<T> query = ProjectToHeads(x_query, layer.query, E, arena);
  NormHeads(query, layer.query_norm);
  if (out.empty()) return ProjectedAttention<T>(query, x, layer, {}, arena, requests);
  const View<T> joined = arena.New<T>({B, Nq, H, E});
  using attention::Order;
  constexpr std::array kPossible = {Order::kProjected, Order::kAbsorbed};
  const attention::Workload workload{Nq, x.dim(1), x.dim(2), H, E, layer.key_norm.empty()};
  // As wide as each other, scores and outputs are cheapest in the same order.
  if (!layer.absorbed.key.empty() && requests.empty() &&
      attention::CheapestPlan(workload, kPossible) == attention::Plan{Order::kAbsorbed, Order::kAbsorbed}) {
    AbsorbedAttention<T>(query, x, layer.absorbed, joined, arena);
  } else {
    ProjectedAttention<T>(query, x, layer, joined, arena, requests);
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
