// Forward pass of attention for all kinds: operands in the usual and in the absorbed order, the cache, requested
// weights, and cross-attention.
#include "qkv/nn/attention.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "qkv/attention/plan.h"
#include "qkv/attention/scores.h"
#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"
#include "qkv/nn/rows.h"

namespace qkv::nn {
namespace {

// Normalises each head's features, those of each map by themselves. from, to: [B, H, N, r], any strides but a dense
// last axis; to may be from.
template <typename T>
void NormHeads(View<const T> from, const Norm<T>& norm, View<T> to) {
  const int64_t H = from.dim(1), N = from.dim(2), width = norm.gamma.size();
  ParallelFor(from.dim(0) * H, 1, [&](int64_t begin, int64_t end) {
    for (int64_t head = begin; head < end; ++head) {
      for (int64_t first = 0; first < from.dim(3); first += width) {
        simd::NormRows<T>(from.at(head / H, head % H) + first, from.stride(2), N, width, norm.gamma.data(),
                          norm.beta.data(), norm.rule(), to.at(head / H, head % H) + first, to.stride(2));
      }
    }
  });
}

// out[b, h, n] = head h of projection(x[b, n]). out: [B, heads, N, E]
template <typename T>
void ProjectInto(const Input<T>& x, const Linear<T>& projection, View<T> out) {
  ForEachMatrix([&](const Input<T>& from, View<T> to) { LinearForward<T>(from, projection, to); }, x,
                SwapHeadsAndTokens(out));
}

template <typename T>
View<T> ProjectToHeads(const Input<T>& x, const Linear<T>& projection, int64_t E, Arena& arena) {
  const View<T> out = NewHeads<T>(x.dim(0), projection.weight.outputs() / E, x.dim(1), E, arena);
  ProjectInto(x, projection, out);
  return out;
}

// to[b, h, n] = layers[h](from[b, h, n])
template <typename T>
void ForEachHead(const std::vector<Linear<T>>& layers, View<const T> from, View<T> to) {
  const auto head_of = [](auto view, int64_t h) {  // [B, N, …] of [B, H, N, …]
    auto head = view.slice(1, h, h + 1);
    return decltype(head)(head.data(), {head.dim(0), head.dim(2), head.dim(3)},
                          {head.stride(0), head.stride(2), head.stride(3)});
  };
  for (int64_t h = 0; h < from.dim(1); ++h) {
    const Linear<T>& layer = layers[static_cast<size_t>(h)];
    ForEachMatrix([&](View<const T> rows, View<T> out) { LinearForward<T>(rows, layer, out); }, head_of(from, h),
                  head_of(to, h));
  }
}

// Operands of attention for all heads.
template <typename T>
struct Operands {
  View<const T> query;  // [B, H, N_q, r]
  View<const T> key;    // [B, G, N, r]
  View<const T> value;  // [B, G, N, E]; absorbed order: the tokens [B, H, N, D], and W_V multiplies their sums
};

// Tokens [B, N, D] broadcast to every head: [B, H, N, D].
template <typename T>
View<const T> ForAllHeads(View<const T> tokens, int64_t H) {
  return {tokens.data(),
          {tokens.dim(0), H, tokens.dim(1), tokens.dim(2)},
          {tokens.stride(0), 0, tokens.stride(1), tokens.stride(2)}};
}

// Vectors q (which = 0) or k (1) of positions [begin, end), broadcast to the batch: [B, H, end − begin, r].
template <typename T>
View<const T> SlicePlaces(View<const T> places, int64_t which, int64_t B, int64_t begin, int64_t end) {
  const View<const T> one = places[which];
  return {one.at(0, begin), {B, one.dim(0), end - begin, one.dim(2)}, {0, one.stride(0), one.stride(1), 1}};
}

// Index in x of the first query's token.
template <typename T>
int64_t FirstQuery(const Input<T>& x_query, const Input<T>& x, const AttentionContext<T>& context) {
  return context.last_rows ? x.dim(1) - x_query.dim(1) : 0;
}

// True if queries equal keys, so that both share memory.
template <typename T>
bool QueriesLieInKeys(const AttentionLayer<T>& layer) {
  return QueriesAreKeys(layer.kind) && layer.query_norm.empty() && layer.eigenvalues.empty();
}

// Queries of a kind with W_Q = W_K: `of`, [B, H, N_q, r], holds the keys of the same tokens before their norm. Returns
// the normalised or scaled queries, [B, H, N_q, r], or `of` itself if they are equal.
template <typename T>
View<T> QueriesOfKeys(View<T> of, const AttentionLayer<T>& layer, Arena& arena) {
  if (QueriesLieInKeys(layer)) return of;
  const int64_t B = of.dim(0), H = of.dim(1), Nq = of.dim(2), r = of.dim(3);
  const View<T> query = NewHeads<T>(B, H, Nq, r, arena);
  if (!layer.query_norm.empty()) {
    NormHeads<T>(of, layer.query_norm, query);
    return query;
  }
  ParallelFor(B * H, 1, [&](int64_t begin, int64_t end) {
    for (int64_t head = begin; head < end; ++head) {
      const T* factors = layer.eigenvalues.view().row(head % H);
      for (int64_t n = 0; n < Nq; ++n) {
        const T* from = of.at(head / H, head % H, n);
        T* to = query.at(head / H, head % H, n);
        for (int64_t i = 0; i < r; ++i) to[i] = factors[i] * from[i];
      }
    }
  });
  return query;
}

// Rotates heads, [B, H, N, r], by the positions that follow those in the cache, and `offset` more.
template <typename T>
void RotateAfter(View<const T> x, const RotaryTable& rotary, const CachedRows<T>& cache, int64_t offset, View<T> y) {
  if (const int64_t e = rotary.width(), r = x.dim(3); r == 2 * e) {  // two maps, each rotated by itself
    RotateAfter<T>(x.slice(3, 0, e), rotary, cache, offset, y.slice(3, 0, e));
    return RotateAfter<T>(x.slice(3, e, r), rotary, cache, offset, y.slice(3, e, r));
  }
  if (cache.empty() || cache.even()) {
    RotateHeads<T>(x, rotary, (cache.empty() ? 0 : cache.tokens()) + offset, y);
    return;
  }
  for (int64_t b = 0; b < x.dim(0); ++b) {
    RotateHeads<T>(x.slice(0, b, b + 1), rotary, cache.lengths.data()[b] + offset, y.slice(0, b, b + 1));
  }
}

// Rotates keys and queries by their positions. Rotated keys go to new memory if the kind uses them as values too,
// otherwise in place. first_query: index of query 0 among the keys.
template <typename T>
void RotateOperands(const AttentionLayer<T>& layer, const RotaryTable& rotary, const CachedRows<T>& cache,
                    int64_t first_query, View<T>* query, View<T>* key, Arena& arena) {
  const View<T> rotated =
      ValuesAreKeys(layer.kind) ? NewHeads<T>(key->dim(0), key->dim(1), key->dim(2), key->dim(3), arena) : *key;
  RotateAfter<T>(*key, rotary, cache, 0, rotated);
  if (QueriesLieInKeys(layer)) {
    *query = rotated.slice(2, first_query, first_query + query->dim(2));
  } else {
    RotateAfter<T>(*query, rotary, cache, first_query, *query);
  }
  *key = rotated;
}

// Reads the first `count` cached keys and values in the layout that attention multiplies.
template <typename T>
void Recall(const AttentionLayer<T>& layer, const CachedRows<T>& cache, int64_t count, View<const T>* key,
            View<const T>* value) {
  *value = cache.value.slice(2, 0, count);
  if (!cache.key.empty()) *key = cache.key.slice(2, 0, count);
  if (cache.key.empty() && ValuesAreKeys(layer.kind)) *key = *value;
  if (layer.kind != AttentionKind::kMerged) return;
  // The tokens are the keys of every head.
  const View<const T> tokens(key->data(), {key->dim(0), key->dim(2), key->dim(3)}, {key->stride(0), key->stride(2), 1});
  *key = ForAllHeads<T>(tokens, layer.heads);
}

// Appends keys and values to the cache.
template <typename T>
void Remember(View<const T> key, View<const T> value, const CachedRows<T>& cache) {
  const auto join = [&](View<const T> from, View<T> to) {
    for (int64_t b = 0; b < from.dim(0); ++b) {
      const int64_t first = cache.lengths.data()[b];
      for (int64_t h = 0; h < to.dim(1); ++h) {
        for (int64_t n = 0; n < from.dim(2); ++n) std::copy_n(from.at(b, h, n), to.dim(3), to.at(b, h, first + n));
      }
    }
  };
  if (!cache.key.empty()) join(key, cache.key);
  join(value, cache.value);
  for (int64_t b = 0; b < value.dim(0); ++b) cache.lengths.data()[b] += value.dim(2);
}

// Projects tokens to keys and values, and to queries if one product makes them with the keys. Without `sums`, values
// are computed only if the product of the keys makes them too.
template <typename T>
Operands<T> KeysAndValues(const Input<T>& x, const AttentionLayer<T>& layer, Arena& arena, View<T>* key = nullptr,
                          View<T>* query = nullptr, bool sums = true) {
  Operands<T> operands;
  if (sums && !layer.value.empty()) operands.value = ProjectToHeads(x, layer.value, layer.head_width, arena);
  if (layer.kind == AttentionKind::kMerged) {
    operands.key = ForAllHeads(Materialised(x, arena), layer.heads);
    return operands;
  }
  if (IsPositional(layer.kind)) return operands;
  const int64_t H = layer.heads, G = layer.kv_heads();
  const int64_t first_key = layer.queries_with_keys() ? H : 0, first_value = first_key + G;  // heads of `projected`
  const View<T> projected = ProjectToHeads(x, layer.query_key_value, layer.query_width(), arena);
  const View<T> keys = projected.slice(1, first_key, first_value);
  if (ValuesAreKeys(layer.kind)) operands.value = keys;
  if (layer.value.empty() && !ValuesAreKeys(layer.kind)) {
    operands.value = projected.slice(1, first_value, first_value + G);
  }
  if (query && layer.queries_with_keys()) *query = projected.slice(1, 0, H);
  if (key) *key = keys;
  operands.key = keys;
  return operands;
}

// The usual order: projects all tokens to queries, keys and values.
template <typename T>
Operands<T> Projected(const Input<T>& x_query, const Input<T>& x, const AttentionLayer<T>& layer,
                      const AttentionContext<T>& context, bool sums, Arena& arena) {
  const int64_t Nq = x_query.dim(1), first = context.cache.empty() ? 0 : context.cache.tokens();
  const int64_t first_query = FirstQuery(x_query, x, context);
  View<T> key, query;
  Operands<T> operands = KeysAndValues(x, layer, arena, &key, &query, sums);
  if (IsPositional(layer.kind)) {
    operands.query = SlicePlaces(context.places, 0, x.dim(0), first + first_query, first + first_query + Nq);
    operands.key = SlicePlaces(context.places, 1, x.dim(0), 0, first + x.dim(1));
    return operands;
  }
  if (layer.kind == AttentionKind::kMerged) {
    operands.query = ProjectToHeads(x_query, layer.query, x.dim(2), arena);
    return operands;
  }
  if (QueriesAreKeys(layer.kind)) {
    query = QueriesOfKeys<T>(key.slice(2, first_query, first_query + Nq), layer, arena);
  } else {
    query = layer.queries_with_keys() ? query.slice(2, first_query, first_query + Nq)
                                      : ProjectToHeads(x_query, layer.query, layer.query_width(), arena);
    if (!layer.query_norm.empty()) NormHeads<T>(query, layer.query_norm, query);
  }
  if (!layer.key_norm.empty()) NormHeads<T>(key, layer.key_norm, key);
  if (context.rotary) RotateOperands(layer, *context.rotary, context.cache, first_query, &query, &key, arena);
  operands.query = query, operands.key = key;
  return operands;
}

// The absorbed order: W_K multiplies the queries and W_V the sums of tokens; keys and values are not projected.
template <typename T>
Operands<T> Absorbed(const Input<T>& x_query, const Input<T>& x, const AttentionLayer<T>& layer,
                     const AttentionContext<T>& context, Arena& arena) {
  const int64_t B = x.dim(0), H = layer.heads, Nq = x_query.dim(1), D = x.dim(2);
  const int64_t first_query = FirstQuery(x_query, x, context);
  const View<const T> tokens = ForAllHeads(Materialised(x, arena), H);
  if (IsPositional(layer.kind)) {
    return {SlicePlaces(context.places, 0, B, first_query, first_query + Nq),
            SlicePlaces(context.places, 1, B, 0, x.dim(1)), tokens};
  }
  const View<T> carried = arena.New<T>({B, H, Nq, D});
  if (layer.kind == AttentionKind::kMerged) {
    ProjectInto(x_query, layer.query, carried);
  } else {
    ForEachHead<T>(layer.absorbed.key, ProjectToHeads(x_query, layer.query, layer.query_width(), arena), carried);
  }
  return {carried, tokens, tokens};
}

// Keys and values come from one product, so they are projected together or not at all.
template <typename T>
bool AbsorbedIsCheaper(const Input<T>& x_query, const Input<T>& x, const AttentionLayer<T>& layer) {
  using attention::Order;
  if (layer.absorbed.value.empty() || layer.queries_with_keys()) return false;
  constexpr std::array kPossible = {Order::kProjected, Order::kAbsorbed};
  const attention::Workload workload{.queries = x_query.dim(1),
                                     .keys = x.dim(1),
                                     .width = x.dim(2),
                                     .heads = layer.heads,
                                     .head_width = layer.query_width(),
                                     .keys_are_linear = layer.key_norm.empty(),
                                     .value_width = layer.head_width};
  const attention::Plan plan = attention::CheapestPlan(workload, kPossible);
  const bool has_keys = layer.kind != AttentionKind::kMerged && !IsPositional(layer.kind);
  return plan.outputs == Order::kAbsorbed && (!has_keys || plan.scores == Order::kAbsorbed);
}

// The bias of one query, [B|1, H|1, 1, N], as that of a query of each head, [B|1, 1, H|1, N].
template <typename T>
View<const T> HeadsAsQueries(View<const T> bias) {
  return {bias.data(),
          {bias.dim(0), 1, bias.dim(1), bias.dim(3)},
          {bias.stride(0), bias.stride(2), bias.stride(1), bias.stride(3)}};
}

// sums[b, h, i] = Σ_j a_ij values[b, h, j]
template <typename T>
void Attend(const Operands<T>& operands, const attention::Options<T>& options, View<T> sums, Arena& arena) {
  const auto& [query, key, value] = operands;
  const bool one_query = query.dim(2) == 1;
  if (key.stride(1) == 0 && value.stride(1) == 0 && (options.bias.empty() || one_query) && options.sinks.empty()) {
    // All heads share the same keys: treat their queries as those of one head.
    const Shape one_head({query.dim(0), 1, query.dim(1) * query.dim(2), query.dim(3)});
    attention::Options<T> of_one_head = options;
    if (!options.bias.empty()) of_one_head.bias = HeadsAsQueries(options.bias);
    attention::Attention<T>(query.reshape(one_head), key.slice(1, 0, 1), value.slice(1, 0, 1), of_one_head,
                            sums.reshape({sums.dim(0), 1, sums.dim(1) * sums.dim(2), sums.dim(3)}), arena);
  } else {
    attention::Attention<T>(query, key, value, options, sums, arena);
  }
}

// The operands of one of the layer's maps.
template <typename T>
Operands<T> OfMap(const AttentionLayer<T>& layer, const Operands<T>& all, int64_t map) {
  if (layer.maps() == 1) return all;
  const int64_t e = all.query.dim(3) / layer.maps();
  return {all.query.slice(3, map * e, (map + 1) * e), all.key.slice(3, map * e, (map + 1) * e), all.value};
}

// to -= lambda · from, of the same shape, both with dense last axes.
template <typename T>
void SubtractScaled(T lambda, View<const T> from, View<T> to) {
  const int64_t H = to.dim(1);
  ParallelFor(to.dim(0) * H, 1, [&](int64_t begin, int64_t end) {
    for (int64_t head = begin; head < end; ++head) {
      for (int64_t n = 0; n < to.dim(2); ++n) {
        const T* const minus = from.at(head / H, head % H, n);
        T* const row = to.at(head / H, head % H, n);
        for (int64_t e = 0; e < to.dim(3); ++e) row[e] -= lambda * minus[e];
      }
    }
  });
}

// The sums of each head, [B, H, N_q, E], by the weights of its map, or by the difference of two and then normed.
template <typename T>
void AttendMaps(const AttentionLayer<T>& layer, const Operands<T>& operands, const attention::Options<T>& options,
                View<T> heads, Arena& arena) {
  Attend<T>(OfMap(layer, operands, 0), options, heads, arena);
  if (layer.maps() == 1) return;
  const Arena::Scope scope(arena);
  const int64_t B = heads.dim(0), H = heads.dim(1), Nq = heads.dim(2), E = heads.dim(3);
  const View<T> second = NewHeads<T>(B, H, Nq, E, arena);
  Attend<T>(OfMap(layer, operands, 1), options, second, arena);
  SubtractScaled<T>(layer.lambda[0], second, heads);
  NormHeads<T>(heads, layer.head_norm, heads);
}

// The sums of each head as AttendMaps gives them, in steps that a probe sees. The scores of two maps are [B, 2·H, N_q,
// N].
template <typename T>
void AttendInSteps(const AttentionLayer<T>& layer, const Operands<T>& operands, const attention::Options<T>& options,
                   const Tap<T>& tap, View<T> heads, Arena& arena) {
  const int64_t B = heads.dim(0), H = heads.dim(1), Nq = heads.dim(2), N = operands.key.dim(2), maps = layer.maps();
  RequireMemory(static_cast<double>(sizeof(T)) * static_cast<double>(2 * maps * B * H * Nq * N),
                "attention: its scores and weights, which were asked for");
  const View<T> scores = arena.New<T>({B, maps * H, Nq, N}), of_map = arena.New<T>({B, H, Nq, N});
  const auto copy = [&](View<const T> from, View<T> to) {
    for (int64_t b = 0; b < B; ++b) std::copy_n(from.at(b), H * Nq * N, to.at(b));
  };
  for (int64_t map = 0; map < maps; ++map) {
    const Operands<T> own = OfMap(layer, operands, map);
    attention::Scores<T>(own.query, own.key, options, of_map);
    copy(of_map, scores.slice(1, map * H, (map + 1) * H));
  }
  tap("scores", scores);
  View<T> weights = of_map;
  for (int64_t map = maps - 1; map >= 0; --map) {
    if (map == 0 && maps == 2) weights = arena.New<T>(of_map.shape());
    copy(scores.slice(1, map * H, (map + 1) * H), weights);
    attention::ScoresToWeights<T>(options.sinks, weights);
  }
  if (maps == 2) SubtractScaled<T>(layer.lambda[0], of_map, weights);
  tap("weights", weights);
  attention::SumByWeights<T>(weights, operands.value, heads);
  if (maps == 2) NormHeads<T>(heads, layer.head_norm, heads);
}

// The sums of each head, and what a probe asks for of them.
template <typename T>
void AttendForTap(const AttentionLayer<T>& layer, const Operands<T>& operands, const attention::Options<T>& options,
                  const Tap<T>& tap, View<T> heads, Arena& arena) {
  if (tap.Wants("scores") || tap.Wants("weights")) {
    AttendInSteps(layer, operands, options, tap, heads, arena);
  } else {
    AttendMaps<T>(layer, operands, options, heads, arena);
  }
  tap("heads", heads);
}

// Copies [B, H, N, E] between views of any strides but a dense last axis.
template <typename T>
void CopyHeads(View<const T> from, View<T> to) {
  for (int64_t b = 0; b < to.dim(0); ++b) {
    for (int64_t h = 0; h < to.dim(1); ++h) {
      for (int64_t n = 0; n < to.dim(2); ++n) std::copy_n(from.at(b, h, n), to.dim(3), to.at(b, h, n));
    }
  }
}

// Queries, keys and values as a probe leaves them: copied if it asks for them, since some share memory. Those of two
// maps are shown as heads of their own, as their scores are: a change of features within a head then keeps to its map.
template <typename T>
void ShowOperands(const Tap<T>& tap, int64_t maps, Operands<T>* operands, Arena& arena) {
  const auto show = [&](std::string_view name, View<const T>* operand, int64_t parts) {
    if (!tap.Wants(name)) return;
    const int64_t B = operand->dim(0), H = operand->dim(1), N = operand->dim(2), e = operand->dim(3) / parts;
    const View<T> shown = arena.New<T>({B, parts * H, N, e});
    for (int64_t i = 0; i < parts; ++i) {
      CopyHeads<T>(operand->slice(3, i * e, (i + 1) * e), shown.slice(1, i * H, (i + 1) * H));
    }
    tap(name, shown);
    View<T> own = shown;
    if (parts > 1) own = arena.New<T>(operand->shape());
    for (int64_t i = 0; i < parts && parts > 1; ++i) {
      CopyHeads<T>(shown.slice(1, i * H, (i + 1) * H), own.slice(3, i * e, (i + 1) * e));
    }
    *operand = own;
  };
  show("q", &operands->query, maps), show("k", &operands->key, maps), show("v", &operands->value, 1);
}

// Computes the requested weights: those of the layer's map, or the difference of two.
template <typename T>
void WriteRequests(const AttentionLayer<T>& layer, const Operands<T>& operands, const attention::Options<T>& options,
                   std::span<const WeightsRequest<T>> requests, Arena& arena) {
  for (const WeightsRequest<T>& request : requests) {
    if (layer.maps() == 1) {
      WriteRequest<T>(request, operands.query, operands.key, options, arena);
    } else {
      const Operands<T> first = OfMap(layer, operands, 0), second = OfMap(layer, operands, 1);
      WriteDifference<T>(request, {first.query, first.key}, {second.query, second.key}, layer.lambda[0], options,
                         arena);
    }
  }
}

template <typename T>
attention::Options<T> MakeAttentionOptions(const AttentionLayer<T>& layer, const AttentionContext<T>& context) {
  attention::Options<T> options;
  options.scale =
      layer.kind == AttentionKind::kGaussian ? T(1) : T(1) / std::sqrt(static_cast<T>(layer.head_width / layer.maps()));
  if (context.causal) {
    const bool to_the_end = !context.cache.empty() || context.last_rows;
    options.causal = to_the_end ? attention::Causal::kBottomRight : attention::Causal::kTopLeft;
  }
  options.bias = context.bias, options.mask = context.mask, options.key_lengths = context.key_lengths;
  options.window_left = layer.window_left, options.window_right = layer.window_right;
  if (layer.sinks.size() > 0) options.sinks = layer.sinks;
  options.bf16 = layer.bf16 && !IsPositional(layer.kind);  // bfloat16 is too coarse for squared distances
  return options;
}

// Passes the head outputs [B, H, N_q, E], which `attend` computes, through norm and projection to out.
template <typename T, typename Attend>
void Output(int64_t B, int64_t Nq, const AttentionLayer<T>& layer, const Tensor<T>* scale, View<const T> residual,
            View<T> out, Arena& arena, Attend attend) {
  const int64_t H = layer.heads, E = layer.head_width;
  // If E is the chunk width and only the projection reads the heads, each head is stored as a chunk.
  const bool chunks = E == simd::kRowChunk && layer.output_norm.empty() && layer.projection.reads_chunks();
  const View<T> heads =
      chunks ? NewHeads<T>(B, H, Nq, E, arena) : SwapHeadsAndTokens(View<T>(arena.New<T>({B, Nq, H, E})));
  attend(heads);
  const View<T> joined = SwapHeadsAndTokens(heads), rows = chunks ? joined : joined.reshape({B, Nq, H * E});
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

// Cross-attention whose softmax is replaced: its weights, [B, H, N_q, N].
template <typename T>
View<const T> ReplacedWeights(const Operands<T>& operands, const CachedRows<T>& source,
                              const attention::Options<T>& options, const AttentionContext<T>& context, Arena& arena) {
  const Shape shape({operands.query.dim(0), operands.query.dim(1), operands.query.dim(2), operands.key.dim(2)});
  Require(context.positions.shape() == Shape({shape[0], shape[2]}),
          "cross-attention: replaced weights need the positions of {} sequences of {} tokens, got {}", shape[0],
          shape[2], context.positions.shape());
  RequireMemory(static_cast<double>(sizeof(T)) * static_cast<double>(shape.size()), "cross-attention: its weights");
  const View<T> weights = arena.New<T>(shape);
  ComputeCrossWeights<T>(*context.cross_weights, context.block, operands.query, operands.key, options, source.lengths,
                         context.positions, weights);
  for (const WeightsRequest<T>& request : context.requests) CopyRequest<T>(request, weights, arena);
  return weights;
}

// N: number of keys, including cached ones.
template <typename T>
void CheckContext(const Input<T>& x_query, const Input<T>& x, const AttentionLayer<T>& layer, bool writes, int64_t N,
                  const AttentionContext<T>& context) {
  Require(!(QueriesAreKeys(layer.kind) || layer.queries_with_keys()) ||
              x_query.x.data() == x.x.at(0, FirstQuery(x_query, x, context)),
          "attention: x_query must be the first or last rows of x if one product makes queries and keys");
  Require(IsPositional(layer.kind) == !context.places.empty() &&
              (context.places.empty() || (context.places.dim(1) == layer.heads && context.places.dim(2) == N)),
          "attention: expected the places of {} heads and {} tokens, got {}", layer.heads, N, context.places.shape());
  Require(!context.rotary || AllowsRotary(layer.kind),
          "attention: rotary positions for a kind whose queries and keys are not its own");
  Require(!context.last_rows || context.causal || (layer.window_left < 0 && layer.window_right < 0) ||
              x_query.dim(1) == x.dim(1),
          "attention: a window around the last rows alone needs a causal layer");
  if (context.cache.empty()) return;
  const CachedRows<T>& cache = context.cache;
  Require(context.causal && writes && (x_query.dim(1) == x.dim(1) || context.last_rows) &&
              cache.value.dim(0) == x.dim(0) && N <= cache.value.dim(2),
          "attention: {} tokens do not fit a cache of {} in {} sequences, causal and for the last of them", N,
          cache.value.dim(2), cache.value.dim(0));
  Require(cache.even() || (!IsPositional(layer.kind) && context.bias.empty() && context.mask.empty() &&
                           context.key_lengths.empty()),
          "attention: cached sequences of unequal lengths allow no positional scores, bias, mask or key lengths");
}

}  // namespace

template <typename T>
void AttentionForward(const Input<T>& x_query, const Input<T>& x, const AttentionLayer<T>& layer,
                      const Tensor<T>* scale, View<const T> residual, View<T> out, Arena& arena,
                      const AttentionContext<T>& context) {
  const Arena::Scope scope(arena);
  const int64_t B = x.dim(0), Nq = x_query.dim(1), N = x.dim(1) + (context.cache.empty() ? 0 : context.cache.tokens());
  CheckContext(x_query, x, layer, !out.empty(), N, context);
  const bool plain = context.requests.empty() && !context.rotary && context.cache.empty() && !context.causal &&
                     context.mask.empty() && context.key_lengths.empty() && layer.window_left < 0 &&
                     layer.window_right < 0 && context.probe == nullptr;
  const bool absorbed = plain && AbsorbedIsCheaper(x_query, x, layer);
  Operands<T> operands = absorbed ? Absorbed(x_query, x, layer, context, arena)
                                  : Projected(x_query, x, layer, context, !out.empty(), arena);
  attention::Options<T> options = MakeAttentionOptions(layer, context);
  if (!context.cache.empty()) {
    Remember(operands.key, operands.value, context.cache);
    Recall(layer, context.cache, context.cache.tokens(), &operands.key, &operands.value);
    if (!context.cache.even()) options.key_lengths = context.cache.lengths;
  }
  if (absorbed) options.bf16 = false;
  const Tap<T> tap{context.probe, {context.block, "attn."}};
  ShowOperands(tap, layer.maps(), &operands, arena);
  WriteRequests<T>(layer, operands, options, context.requests, arena);
  if (out.empty()) return;
  // Of many queries some at a time: their sums need no memory for all. Keys that are tokens may lie in `out`.
  const bool apart = plain && !absorbed && context.bias.empty() && layer.kind != AttentionKind::kMerged;
  if (const int64_t some = RowsTogether<T>(B * Nq, layer.heads * layer.head_width) / B;
      apart && some > 0 && some < Nq) {
    for (int64_t begin = 0; begin < Nq; begin += some) {
      const Arena::Scope of_part(arena);
      const int64_t end = std::min(Nq, begin + some);
      const Operands<T> part{operands.query.slice(2, begin, end), operands.key, operands.value};
      Output(B, end - begin, layer, scale, residual.empty() ? residual : residual.slice(1, begin, end),
             out.slice(1, begin, end), arena,
             [&](View<T> heads) { AttendMaps<T>(layer, part, options, heads, arena); });
    }
    return;
  }
  Output(B, Nq, layer, scale, residual, out, arena, [&](View<T> heads) {
    if (!absorbed) return AttendForTap<T>(layer, operands, options, tap, heads, arena);
    const View<T> sums = arena.New<T>({B, layer.heads, Nq, x.dim(2)});
    Attend<T>(operands, options, sums, arena);
    ForEachHead<T>(layer.absorbed.value, sums, heads);
  });
}

template <typename T>
void CrossAttentionFill(const Input<T>& source, View<const int64_t> lengths, const AttentionLayer<T>& layer,
                        KeyValueCache<T>& cache, Arena& arena) {
  const Arena::Scope scope(arena);
  Require(!IsPositional(layer.kind) && !layer.query.empty() && cache.value.dim(0) == source.dim(0) &&
              source.dim(1) <= cache.value.dim(2),
          "cross-attention: {} tokens of {} sequences do not fit a cache of {} in {}, or the layer makes queries with "
          "its keys",
          source.dim(1), source.dim(0), cache.value.dim(2), cache.value.dim(0));
  std::ranges::fill(cache.lengths.span(), int64_t{0});
  View<T> key;
  const Operands<T> operands = KeysAndValues(source, layer, arena, &key);
  if (!layer.key_norm.empty()) NormHeads<T>(key, layer.key_norm, key);
  Remember(operands.key, operands.value, cache.Rows(0, source.dim(0)));
  if (!lengths.empty()) std::copy_n(lengths.data(), source.dim(0), cache.lengths.data());
}

template <typename T>
void CrossAttentionForward(const Input<T>& x, const CachedRows<T>& source, const AttentionLayer<T>& layer,
                           const Tensor<T>* scale, View<const T> residual, View<T> out, Arena& arena,
                           const AttentionContext<T>& context) {
  const Arena::Scope scope(arena);
  const int64_t B = x.dim(0), Nq = x.dim(1);
  Require(!layer.query.empty() && B == source.value.dim(0) && source.tokens() > 0 && !context.causal && !context.rotary,
          "cross-attention: expected a layer with queries apart and a filled source of {} sequences, got {}", B,
          source.value.dim(0));
  Operands<T> operands;
  const View<T> query =
      ProjectToHeads(x, layer.query, layer.query.weight.outputs() / layer.heads, arena);  // width r; merged: D_source
  if (!layer.query_norm.empty()) NormHeads<T>(query, layer.query_norm, query);
  operands.query = query;
  // Requested weights are of all tokens of the source, padding included.
  const Tap<T> tap{context.probe, {context.block, "cross."}};
  const bool all = !context.requests.empty() || tap.Wants("scores") || tap.Wants("weights");
  const int64_t tokens = all ? source.value.dim(2) : source.tokens();
  Recall(layer, source, tokens, &operands.key, &operands.value);
  ShowOperands(tap, layer.maps(), &operands, arena);
  attention::Options<T> options = MakeAttentionOptions(layer, context);
  if (!source.even() || source.tokens() < tokens) options.key_lengths = source.lengths;
  if (context.cross_weights && context.cross_weights->Replaces(context.block)) {
    Require(!tap.Wants("scores") && !tap.Wants("weights"),
            "cross-attention: its weights are replaced already, so no probe changes or keeps them");
    Require(layer.maps() == 1, "cross-attention: no other weights take the place of the difference of two softmaxes");
    const View<const T> weights = ReplacedWeights(operands, source, options, context, arena);
    if (out.empty()) return;
    Output(B, Nq, layer, scale, residual, out, arena,
           [&](View<T> heads) { attention::SumByWeights<T>(weights, operands.value, heads), tap("heads", heads); });
    return;
  }
  WriteRequests<T>(layer, operands, options, context.requests, arena);
  if (out.empty()) return;
  Output(B, Nq, layer, scale, residual, out, arena,
         [&](View<T> heads) { AttendForTap<T>(layer, operands, options, tap, heads, arena); });
}

#define QKV_INSTANTIATE(T)                                                                                            \
  template void AttentionForward(const Input<T>&, const Input<T>&, const AttentionLayer<T>&, const Tensor<T>*,        \
                                 View<const T>, View<T>, Arena&, const AttentionContext<T>&);                         \
  template void CrossAttentionFill(const Input<T>&, View<const int64_t>, const AttentionLayer<T>&, KeyValueCache<T>&, \
                                   Arena&);                                                                           \
  template void CrossAttentionForward(const Input<T>&, const CachedRows<T>&, const AttentionLayer<T>&,                \
                                      const Tensor<T>*, View<const T>, View<T>, Arena&, const AttentionContext<T>&);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::nn
