// Training of attention: for each kind the products of its projections, the operands of softmax attention, and the
// gradients of both.
#include "qkv/nn/training/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "qkv/core/rng.h"
#include "qkv/nn/gaussian_places.h"
#include "qkv/nn/ranges.h"
#include "qkv/nn/training/token_rows.h"
#include "qkv/simd/gemm/matmul.h"
#include "qkv/simd/rows/elementwise_backward.h"

namespace qkv::nn {
namespace {

struct Sizes {
  template <typename T>
  Sizes(View<const T> x_query, View<const T> x, const AttentionSettings& s, bool of_source)
      : B(x.dim(0)),
        N(x.dim(1)),
        rows(x_query.dim(1)),
        D(x_query.dim(2)),
        S(x.dim(2)),
        H(s.config.heads),
        G(s.config.kv_heads()),
        E(s.config.head_width),
        r(s.config.kind == AttentionKind::kMerged ? x.dim(2) : s.config.place_width()),
        cross(of_source) {}

  // True if queries have their own memory, apart from keys and values.
  bool apart() const { return cross || rows < N; }

  int64_t B, N, rows, D, S, H, G, E;  // D, S: widths of the tokens that make queries, and keys
  int64_t r;                          // width of queries and keys
  bool cross;
};

// Views rows of all heads, [B·n, H·e], as [B, H, n, e].
template <typename T>
View<T> AsHeads(View<T> matrix, int64_t B, int64_t H) {
  const int64_t n = matrix.dim(0) / B, e = matrix.dim(1) / H, stride = matrix.stride(0);
  return View<T>(matrix.data(), {B, H, n, e}, {n * stride, e, stride, 1});
}

// The columns of one head.
template <typename T>
View<T> OfHead(View<T> matrix, int64_t h, int64_t H) {
  const int64_t e = matrix.dim(1) / H;
  return matrix.slice(1, h * e, (h + 1) * e);
}

// Memory for the outputs of the linear layers of a kind, or for their gradients.
template <typename T>
ProjectedTokens<T> NewProjected(const Sizes& z, AttentionKind kind, Arena& arena) {
  const int64_t all_rows = z.B * z.N, query_rows = z.B * z.rows, queries = z.H * z.r;
  const int64_t keys = z.G * z.r, values = z.G * z.E;
  ProjectedTokens<T> to;
  if (StacksProjections(kind)) {
    const int64_t first = z.apart() ? 0 : queries;  // column where the keys begin
    to.all = arena.New<T>({all_rows, first + keys + values});
    to.query = z.apart() ? arena.New<T>({query_rows, queries}) : to.all.slice(1, 0, queries);
    to.key = to.all.slice(1, first, first + keys);
    to.value = to.all.slice(1, first + keys, first + keys + values);
    return to;
  }
  const bool has_keys = kind != AttentionKind::kMerged && !IsPositional(kind);
  if (has_keys) to.key = arena.New<T>({all_rows, keys});
  if (!ValuesAreKeys(kind)) to.value = arena.New<T>({all_rows, values});
  if (z.cross || (!QueriesAreKeys(kind) && !IsPositional(kind))) to.query = arena.New<T>({query_rows, queries});
  return to;
}

// One product: its weights, whether it reads the queries' tokens or all tokens, and its output.
template <typename T>
struct Product {
  LinearParameters<T> p;
  bool of_queries = false;
  View<std::remove_const_t<T>> out;
};

template <typename T>
LinearParameters<T> SliceOutputs(const LinearParameters<T>& p, int64_t begin, int64_t end) {
  return {p.weight.slice(0, begin, end), p.bias.empty() ? p.bias : p.bias.slice(0, begin, end)};
}

// The products of a kind, for weights or for gradients; entries without weights are empty. The product that reads all
// tokens comes first, because its gradient overwrites dx.
template <typename T>
std::array<Product<T>, 3> ListProducts(const AttentionParameters<T>& p, const Sizes& z,
                                       const ProjectedTokens<std::remove_const_t<T>>& to) {
  if (!p.query_key_value.empty()) {
    if (!z.apart()) return {Product<T>{p.query_key_value, false, to.all}};
    if (z.cross) return {Product<T>{p.query_key_value, false, to.all}, Product<T>{p.query, true, to.query}};
    const int64_t queries = z.H * z.r, outputs = p.query_key_value.weight.dim(0);
    return {Product<T>{SliceOutputs(p.query_key_value, queries, outputs), false, to.all},
            Product<T>{SliceOutputs(p.query_key_value, 0, queries), true, to.query}};
  }
  // In cross-attention, kinds with W_Q = W_K make the queries by the weights of the keys.
  const bool shared = z.cross && p.query.empty() && p.merged.empty();
  return {Product<T>{p.key, false, to.key}, Product<T>{p.value, false, to.value},
          Product<T>{shared ? p.key : p.query, true, to.query}};
}

// Queries for keys that are the tokens themselves: x M + u for each head.
template <typename T>
void MergedForward(const AttentionParameters<const T>& p, View<const T> x, View<T> query, simd::Precision precision) {
  const int64_t H = p.merged.dim(0);
  for (int64_t h = 0; h < H; ++h) {
    simd::Epilogue<T> epilogue;
    if (!p.key_term.empty()) epilogue.bias = p.key_term.row(h);
    simd::MatMul<T>(x, p.merged[h], epilogue, OfHead(query, h, H), precision);
  }
}

template <typename T>
void MergedBackward(const AttentionParameters<const T>& p, View<const T> x, View<const T> dquery, View<T> dx, bool add,
                    const AttentionParameters<T>& d, simd::Precision precision) {
  const int64_t H = p.merged.dim(0);
  for (int64_t h = 0; h < H; ++h) {
    const View<const T> of_head = OfHead(dquery, h, H);
    if (!d.merged.empty()) simd::MatMul<T>(simd::Transposed(x), of_head, d.merged[h], true, precision);
    simd::MatMul<T>(of_head, simd::Transposed(p.merged[h]), dx, add || h > 0, precision);
  }
  if (d.key_term.empty()) return;
  ForColumnRanges(dquery.dim(1), dquery.dim(0), [&](int64_t begin, int64_t end) {
    simd::AddRows<T>(dquery.at(0, begin), dquery.stride(0), dquery.dim(0), end - begin, d.key_term.data() + begin);
  });
}

// to[r, i] = factors[i] · from[r, i]
template <typename T>
void ScaleColumns(View<const T> from, View<const T> factors, View<T> to) {
  ForRowRanges(from.dim(0), from.dim(1), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* x = from.row(row);
      T* y = to.row(row);
      for (int64_t c = 0; c < from.dim(1); ++c) y[c] = factors.data()[c] * x[c];
    }
  });
}

// Normalises each head's features, those of each map by themselves. moments: [heads and maps, R, 2]
template <typename T>
View<T> NormHeads(View<const T> from, const NormParameters<const T>& p, View<T>* moments, Arena& arena) {
  const int64_t heads = from.dim(1) / p.gamma.size();
  const View<T> to = arena.New<T>(from.shape());
  *moments = arena.New<T>({heads, from.dim(0), 2});
  for (int64_t h = 0; h < heads; ++h) {
    NormForward<T>(OfHead(from, h, heads), p, OfHead(to, h, heads), (*moments)[h]);
  }
  return to;
}

template <typename T>
void NormHeadsBackward(View<const T> from, View<const T> moments, const NormParameters<const T>& p, View<const T> dy,
                       View<T> dx, const NormParameters<T>& d) {
  const int64_t heads = moments.dim(0);
  for (int64_t h = 0; h < heads; ++h) {
    NormBackward<T>(OfHead(from, h, heads), moments[h], p, OfHead(dy, h, heads), OfHead(dx, h, heads), false, d);
  }
}

// Broadcasts places, [2, H, N, r] of kGaussian or learned ones, to every image: [B, H, n, r].
template <typename T>
View<const T> ForAllImages(View<const T> places, int64_t B, int64_t n) {
  return {places.data(), {B, places.dim(0), n, places.dim(2)}, {0, places.stride(0), places.stride(1), 1}};
}

template <typename T>
void PlacesForward(const Sizes& z, const AttentionParameters<const T>& p, const AttentionSettings& s,
                   AttentionCache<T>& cache, Arena& arena) {
  View<const T> query = p.query_places, key = p.key_places;
  if (s.config.kind == AttentionKind::kGaussian) {
    cache.bandwidth = arena.New<T>({z.H}), cache.places = arena.New<T>({2, z.H, z.N, z.r});
    for (int64_t h = 0; h < z.H; ++h) {
      cache.bandwidth.data()[h] = std::max(p.bandwidth.data()[h], static_cast<T>(kLeastBandwidth));
    }
    GaussianPlaces<T>(cache.bandwidth, s.grid.prefix, s.grid.height, s.grid.width, cache.places);
    query = cache.places[0], key = cache.places[1];
  }
  cache.query = ForAllImages(query, z.B, z.rows), cache.key = ForAllImages(key, z.B, z.N);
}

// dquery, dkey: [B, H, n, r]
template <typename T>
void PlacesBackward(const Sizes& z, const AttentionCache<T>& cache, View<const T> dquery, View<const T> dkey,
                    const AttentionParameters<T>& d) {
  if (d.bandwidth.empty() && d.query_places.empty()) return;
  ParallelFor(z.H, 1, [&](int64_t begin, int64_t end) {
    for (int64_t h = begin; h < end; ++h) {
      if (cache.bandwidth.empty()) {
        const auto add = [&](View<const T> from, View<T> to) {
          for (int64_t b = 0; b < z.B; ++b) {
            for (int64_t n = 0; n < from.dim(2); ++n) {
              for (int64_t i = 0; i < z.r; ++i) *to.at(h, n, i) += *from.at(b, h, n, i);
            }
          }
        };
        add(dquery, d.query_places), add(dkey, d.key_places);
        continue;
      }
      // Only keys depend on h: they are features of positions, divided by h².
      double sum = 0;
      for (int64_t b = 0; b < z.B; ++b) {
        for (int64_t n = 0; n < z.N; ++n) {
          for (int64_t i = 0; i < z.r; ++i) {
            sum += static_cast<double>(*dkey.at(b, h, n, i)) * static_cast<double>(*cache.key.at(0, h, n, i));
          }
        }
      }
      d.bandwidth.data()[h] += static_cast<T>(-2 * sum / static_cast<double>(cache.bandwidth.data()[h]));
    }
  });
}

template <typename T>
attention::Options<T> MakeAttentionOptions(const AttentionSettings& s, const AttentionParameters<const T>& p) {
  attention::Options<T> options;
  options.scale = s.config.kind == AttentionKind::kGaussian
                      ? T(1)
                      : T(1) / std::sqrt(static_cast<T>(s.config.head_width / s.config.maps()));
  if (s.causal) options.causal = attention::Causal::kTopLeft;
  options.mask = s.mask, options.bias = p.score_bias, options.sinks = p.sinks, options.key_lengths = s.key_lengths;
  options.window_left = s.config.window_left, options.window_right = s.config.window_right;
  options.bf16 = s.precision == simd::Precision::kBfloat16 && !IsPositional(s.config.kind);  // too coarse for distances
  options.dropout = static_cast<T>(s.dropout), options.seed = s.seed, options.first_batch = s.first_image;
  return options;
}

// Rotates queries and keys by their positions, in place unless the unrotated keys are still needed.
template <typename T>
void RotateOperands(const Sizes& z, const AttentionSettings& s, View<T>* query, View<T>* key, Arena& arena) {
  const bool same = query->data() == key->data();
  const bool key_is_read = ValuesAreKeys(s.config.kind) || s.config.kind == AttentionKind::kSymmetric;
  const View<T> rotated = key_is_read ? arena.New<T>(key->shape()) : *key;
  RotateRows<T>(*key, z.N, *s.rotary, 0, RotaryDirection::kForward, rotated);
  *key = rotated;
  if (same) {
    *query = rotated;
  } else {
    RotateRows<T>(*query, z.rows, *s.rotary, 0, RotaryDirection::kForward, *query);
  }
}

// Computes the operands of attention from the outputs of the linear layers.
template <typename T>
void FillOperands(const Sizes& z, const AttentionParameters<const T>& p, const AttentionSettings& s,
                  AttentionCache<T>& cache, Arena& arena) {
  if (IsPositional(s.config.kind)) {
    PlacesForward(z, p, s, cache, arena);
  } else {
    View<T> query = cache.projected.query, key = cache.projected.key;
    if (query.empty()) query = z.apart() ? FirstTokens<T>(key, z.B, z.rows, arena) : key;
    cache.raw_query = query;
    if (!p.query_norm.empty()) query = NormHeads<T>(query, p.query_norm, &cache.query_moments, arena);
    if (!p.key_norm.empty()) key = NormHeads<T>(key, p.key_norm, &cache.key_moments, arena);
    if (s.config.kind == AttentionKind::kSymmetric) {
      const View<T> scaled = arena.New<T>(query.shape());
      ScaleColumns<T>(query, p.eigenvalues, scaled);
      query = scaled;
    }
    if (s.rotary) RotateOperands(z, s, &query, &key, arena);
    cache.query = AsHeads<const T>(query, z.B, z.H);
    // Merged: the tokens are the keys of every head.
    cache.key = s.config.kind == AttentionKind::kMerged
                    ? View<const T>(cache.x.data(), {z.B, z.H, z.N, z.S}, {z.N * z.S, 0, z.S, 1})
                    : AsHeads<const T>(key, z.B, z.G);
  }
  const View<const T> values = ValuesAreKeys(s.config.kind) ? cache.projected.key : cache.projected.value;
  cache.value = AsHeads(values, z.B, z.G);
}

// Turns gradients of queries and keys into gradients of the linear layers' outputs, `to`. dquery: [B·rows, H·r]; dkey:
// [B·N, H·r], already to.key if keys are not normalised; dvalue: used if values are keys.
template <typename T>
void OperandsBackward(const Sizes& z, const AttentionParameters<const T>& p, const AttentionSettings& s,
                      const AttentionCache<T>& cache, View<T> dquery, View<T> dkey, View<T> dvalue,
                      const ProjectedTokens<T>& to, const AttentionParameters<T>& d) {
  if (!p.key_norm.empty()) {
    NormHeadsBackward<T>(cache.projected.key, cache.key_moments, p.key_norm, dkey, to.key, d.key_norm);
  }
  if (!p.query_norm.empty()) {
    NormHeadsBackward<T>(cache.raw_query, cache.query_moments, p.query_norm, dquery,
                         to.query.empty() ? dquery : to.query, d.query_norm);
  }
  if (s.config.kind == AttentionKind::kSymmetric) {
    const View<const T> raw = cache.raw_query;
    ForColumnRanges(d.eigenvalues.empty() ? 0 : raw.dim(1), raw.dim(0), [&](int64_t begin, int64_t end) {
      simd::AddRowProducts<T>(raw.at(0, begin), raw.stride(0), dquery.at(0, begin), dquery.stride(0), raw.dim(0),
                              end - begin, T(1), d.eigenvalues.data() + begin);
    });
    ScaleColumns<T>(dquery, p.eigenvalues, dquery);
  }
  if (to.query.empty() && QueriesAreKeys(s.config.kind)) AddToFirstTokens<T>(dquery, z.B, to.key);
  if (ValuesAreKeys(s.config.kind)) AddRows<T>(dvalue, to.key);
}

// Gradient of the joined heads, [B·rows, H·E].
template <typename T>
View<const T> OutputBackward(const AttentionParameters<const T>& p, simd::Precision precision,
                             const AttentionCache<T>& cache, View<const T> dy, const AttentionParameters<T>& d,
                             Arena& arena) {
  View<const T> djoined = dy;
  if (!p.projection.empty()) {
    const View<T> dattended = arena.New<T>(cache.joined.shape());
    LinearBackward<T>(cache.normed.empty() ? cache.joined : cache.normed, p.projection, dy, dattended, false,
                      d.projection, precision);
    djoined = dattended;
  }
  if (p.output_norm.empty()) return djoined;
  const View<T> dnormed = arena.New<T>(cache.joined.shape());
  NormBackward<T>(cache.joined, cache.output_moments, p.output_norm, djoined, dnormed, false, d.output_norm);
  return dnormed;
}

// Calls `with` the operands for settings.open, which double does not have.
template <typename T, typename With>
void OpenTo(const Sizes& z, const AttentionParameters<const T>& p, const AttentionSettings& s,
            const AttentionCache<T>& cache, With with) {
  Require(std::is_same_v<T, float> && !z.apart() && !s.causal && s.mask.empty() && s.key_lengths.empty() &&
              s.dropout == 0 && p.score_bias.empty() && p.sinks.empty() && !s.config.has_window(),
          "attention: open attention is of float, with all tokens for queries and keys, and without masks, biases, "
          "sinks and dropout");
  if constexpr (std::is_same_v<T, float>) {
    with(OpenOperands{s.block, MakeAttentionOptions<T>(s, p).scale, cache.query, cache.key, cache.value});
  }
}

// The operands, or their gradients, of one of the layer's maps: [B, H, n, e] of [B, H, n, r].
template <typename T>
View<T> OfMap(const AttentionSettings& s, View<T> heads, int64_t map) {
  const int64_t e = heads.dim(3) / s.config.maps();
  return heads.slice(3, map * e, (map + 1) * e);
}

// The maps drop different weights.
template <typename T>
attention::Options<T> OptionsOfMap(const AttentionSettings& s, const AttentionParameters<const T>& p, int64_t map) {
  attention::Options<T> options = MakeAttentionOptions<T>(s, p);
  if (map > 0) options.seed = MixSeed(s.seed, 2);
  return options;
}

template <typename T>
void Attend(const Sizes& z, const AttentionParameters<const T>& p, const AttentionSettings& s, AttentionCache<T>& cache,
            Arena& arena) {
  const View<T> joined = AsHeads(cache.joined, z.B, z.H);
  Require(!s.open || s.config.maps() == 1, "attention: open attention is one softmax, not the difference of two");
  if (s.open) return OpenTo<T>(z, p, s, cache, [&](const auto& operands) { s.open->Forward(operands, joined); });
  for (int64_t map = 0; map < s.config.maps(); ++map) {
    View<T>& attended = cache.difference.maps[map];
    attended = s.config.maps() == 1 ? cache.joined : arena.New<T>(cache.joined.shape());
    cache.lse[map] = arena.New<T>({z.B, z.H, z.rows});
    attention::Attention<T>(OfMap(s, cache.query, map), OfMap(s, cache.key, map), cache.value, OptionsOfMap(s, p, map),
                            AsHeads(attended, z.B, z.H), arena, cache.lse[map]);
  }
  if (s.config.maps() == 1) return;
  DifferenceForward<T>(p.lambda, p.head_norm, s.block, cache.difference, cache.joined, arena);
}

// The gradient of one map. Adds to the gradients of its biases and sinks.
template <typename T>
void MapBackward(const Sizes& z, const AttentionParameters<const T>& p, const AttentionSettings& s,
                 const AttentionCache<T>& cache, int64_t map, View<const T> dattended,
                 const attention::BackwardTensors<T>& all, const AttentionParameters<T>& d, Arena& arena) {
  attention::BackwardTensors<T> tensors;
  tensors.q = OfMap(s, cache.query, map), tensors.k = OfMap(s, cache.key, map), tensors.v = cache.value;
  tensors.out = AsHeads(View<const T>(cache.difference.maps[map]), z.B, z.H), tensors.lse = cache.lse[map];
  tensors.dout = AsHeads(dattended, z.B, z.H);
  tensors.dq = OfMap(s, all.dq, map), tensors.dk = OfMap(s, all.dk, map), tensors.dv = all.dv;
  if (!d.score_bias.empty()) tensors.dbias = arena.New<T>(d.score_bias.shape());
  if (!d.sinks.empty()) tensors.dsinks = arena.New<T>({z.H});
  attention::AttentionBackward<T>(tensors, OptionsOfMap(s, p, map), arena);
  for (int64_t i = 0; i < d.score_bias.size(); ++i) d.score_bias.data()[i] += tensors.dbias.data()[i];
  for (int64_t h = 0; h < d.sinks.size(); ++h) d.sinks.data()[h] += tensors.dsinks.data()[h];
}

// Gradients of the operands: `to` has dq, dk and dv, which is a view of dvalue, [B·N, G·E], or empty.
template <typename T>
void AttendBackward(const Sizes& z, const AttentionParameters<const T>& p, const AttentionSettings& s,
                    const AttentionCache<T>& cache, View<const T> djoined, attention::BackwardTensors<T> to,
                    View<T> dvalue, const AttentionParameters<T>& d, Arena& arena) {
  if (s.open) {
    return OpenTo<T>(z, p, s, cache,
                     [&](const auto& x) { s.open->Backward(x, AsHeads(djoined, z.B, z.H), to.dq, to.dk, to.dv); });
  }
  if (s.config.maps() == 1) return MapBackward(z, p, s, cache, 0, djoined, to, d, arena);
  if (!djoined.dense()) {
    const View<T> copy = arena.New<T>(djoined.shape());
    CopyRows<T>(djoined, copy);
    djoined = copy;
  }
  const View<T> dmaps[2] = {arena.New<T>(djoined.shape()), arena.New<T>(djoined.shape())};
  DifferenceBackward<T>(p.lambda, s.block, cache.difference, djoined, d.lambda, d.head_norm, dmaps, arena);
  MapBackward<T>(z, p, s, cache, 0, dmaps[0], to, d, arena);
  const View<T> of_second = arena.New<T>(dvalue.shape());  // both maps read the same values
  to.dv = AsHeads(of_second, z.B, z.G);
  MapBackward<T>(z, p, s, cache, 1, dmaps[1], to, d, arena);
  AddRows<T>(of_second, dvalue);
}

// The forward pass on cache.x and cache.x_query.
template <typename T>
void Forward(const Sizes& z, const AttentionParameters<const T>& p, const AttentionSettings& s, View<const T> residual,
             View<T> y, AttentionCache<T>& cache, Arena& arena) {
  cache.projected = NewProjected<T>(z, s.config.kind, arena);
  for (const Product<const T>& product : ListProducts<const T>(p, z, cache.projected)) {
    if (product.p.empty()) continue;
    LinearForward<T>(product.of_queries ? cache.x_query : cache.x, product.p, product.out, {}, s.precision);
  }
  if (s.config.kind == AttentionKind::kMerged) {
    MergedForward<T>(p, cache.x_query, cache.projected.query, s.precision);
  }
  FillOperands(z, p, s, cache, arena);
  cache.joined = arena.New<T>({z.B * z.rows, z.H * z.E});
  Attend(z, p, s, cache, arena);
  View<const T> result = cache.joined;
  if (!p.output_norm.empty()) {
    cache.normed = arena.New<T>(cache.joined.shape()), cache.output_moments = arena.New<T>({z.B * z.rows, 2});
    NormForward<T>(result, p.output_norm, cache.normed, cache.output_moments);
    result = cache.normed;
  }
  if (!p.projection.empty()) return LinearForward<T>(result, p.projection, y, residual, s.precision);
  if (residual.data() != y.data()) residual.empty() ? CopyRows<T>(result, y) : CopyRows<T>(residual, y);
  if (!residual.empty()) AddRows<T>(result, y);
}

// dx_query: [B·rows, D], overwritten if queries have their own tokens, otherwise dx itself. dx: [B·N, S], overwritten,
// or with `add` added to.
template <typename T>
void Backward(const Sizes& z, const AttentionParameters<const T>& p, const AttentionSettings& s,
              const AttentionCache<T>& cache, View<const T> dy, View<T> dx_query, View<T> dx, bool add,
              const AttentionParameters<T>& d, Arena& arena) {
  const View<const T> djoined = OutputBackward(p, s.precision, cache, dy, d, arena);

  // Gradients of the operands are written directly to those of the linear layers if nothing lies in between.
  const ProjectedTokens<T> to = NewProjected<T>(z, s.config.kind, arena);
  const auto or_new = [&](bool own, View<T> where, int64_t tokens, int64_t width) {
    return own ? where : arena.New<T>({z.B * tokens, width});
  };
  const View<T> dquery = or_new(!to.query.empty() && p.query_norm.empty(), to.query, z.rows, z.H * z.r);
  const View<T> dkey = or_new(!to.key.empty() && p.key_norm.empty(), to.key, z.N, z.G * z.r);
  const View<T> dvalue = or_new(!to.value.empty(), to.value, z.N, z.G * z.E);
  attention::BackwardTensors<T> tensors;
  tensors.dq = AsHeads(dquery, z.B, z.H), tensors.dk = AsHeads(dkey, z.B, z.G), tensors.dv = AsHeads(dvalue, z.B, z.G);
  AttendBackward(z, p, s, cache, djoined, tensors, dvalue, d, arena);

  if (IsPositional(s.config.kind)) {
    PlacesBackward<T>(z, cache, tensors.dq, tensors.dk, d);
  } else {
    if (s.rotary) {
      RotateRows<T>(dquery, z.rows, *s.rotary, 0, RotaryDirection::kInverse, dquery);
      RotateRows<T>(dkey, z.N, *s.rotary, 0, RotaryDirection::kInverse, dkey);
    }
    OperandsBackward(z, p, s, cache, dquery, dkey, dvalue, to, d);
  }

  const auto add_queries = [&] {
    if (z.apart() && !z.cross) AddToFirstTokens<T>(dx_query, z.B, dx);
  };
  const auto products = ListProducts<const T>(p, z, to);
  const auto gradients = ListProducts<T>(d, z, to);
  bool written = add;
  for (size_t i = 0; i < products.size(); ++i) {
    if (products[i].p.empty()) continue;
    const bool apart = products[i].of_queries && z.apart();
    LinearBackward<T>(apart ? cache.x_query : cache.x, products[i].p, products[i].out, apart ? dx_query : dx,
                      written && !apart, gradients[i].p, s.precision);
    if (apart) add_queries();
    written = true;
  }
  if (s.config.kind == AttentionKind::kMerged) {
    MergedBackward<T>(p, cache.x_query, to.query, dx_query, !z.apart(), d, s.precision);
    add_queries();
    for (int64_t h = 0; h < z.H; ++h) AddRows<T>(OfHead(dkey, h, z.H), dx);
  }
}

}  // namespace

template <typename T>
void AttentionForward(View<const T> x, int64_t rows, const AttentionParameters<const T>& p, const AttentionSettings& s,
                      View<const T> residual, View<T> y, AttentionCache<T>& cache, Arena& arena) {
  Require(x.rank() == 3 && x.dense() && rows > 0 && rows <= x.dim(1),
          "attention: expected dense tokens [B, N, D] and some of them as queries, got {} and {}", x.shape(), rows);
  Require(!s.rotary || AllowsRotary(s.config.kind),
          "attention: rotary positions for a kind whose queries and keys are not its own");
  const Sizes z(x.slice(1, 0, rows), x, s, false);
  cache = {};
  cache.x = x.reshape({z.B * z.N, z.D});
  cache.x_query = z.apart() ? FirstTokens<T>(cache.x, z.B, rows, arena) : cache.x;
  Forward(z, p, s, residual, y, cache, arena);
}

template <typename T>
void AttentionBackward(int64_t rows, const AttentionParameters<const T>& p, const AttentionSettings& s,
                       const AttentionCache<T>& cache, View<const T> dy, View<T> dx, const AttentionParameters<T>& d,
                       Arena& arena) {
  const Arena::Scope scope(arena);
  const View<const T> x = dx;  // only its shape is read
  const Sizes z(x.slice(1, 0, rows), x, s, false);
  const View<T> all = dx.reshape({z.B * z.N, z.D});
  Backward<T>(z, p, s, cache, dy, z.apart() ? arena.New<T>({z.B * rows, z.D}) : all, all, false, d, arena);
}

template <typename T>
void CrossAttentionForward(View<const T> x, View<const T> source, const AttentionParameters<const T>& p,
                           const AttentionSettings& s, View<const T> residual, View<T> y, AttentionCache<T>& cache,
                           Arena& arena) {
  Require(x.rank() == 3 && source.rank() == 3 && x.dense() && source.dense() && x.dim(0) == source.dim(0),
          "cross-attention: expected dense tokens [B, N, D] and a source [B, N, D], got {} and {}", x.shape(),
          source.shape());
  Require(!IsPositional(s.config.kind) && !s.rotary && !s.causal,
          "cross-attention: queries and keys of different tokens have no common places");
  const Sizes z(x, source, s, true);
  cache = {};
  cache.x = source.reshape({z.B * z.N, z.S}), cache.x_query = x.reshape({z.B * z.rows, z.D});
  Forward(z, p, s, residual, y, cache, arena);
}

template <typename T>
void CrossAttentionBackward(const AttentionParameters<const T>& p, const AttentionSettings& s,
                            const AttentionCache<T>& cache, View<const T> dy, View<T> dx, View<T> dsource,
                            const AttentionParameters<T>& d, Arena& arena) {
  const Arena::Scope scope(arena);
  const Sizes z(View<const T>(dx), View<const T>(dsource), s, true);
  Backward<T>(z, p, s, cache, dy, dx.reshape({z.B * z.rows, z.D}), dsource.reshape({z.B * z.N, z.S}), true, d, arena);
}

#define QKV_INSTANTIATE(T)                                                                                           \
  template void AttentionForward(View<const T>, int64_t, const AttentionParameters<const T>&,                        \
                                 const AttentionSettings&, View<const T>, View<T>, AttentionCache<T>&, Arena&);      \
  template void AttentionBackward(int64_t, const AttentionParameters<const T>&, const AttentionSettings&,            \
                                  const AttentionCache<T>&, View<const T>, View<T>, const AttentionParameters<T>&,   \
                                  Arena&);                                                                           \
  template void CrossAttentionForward(View<const T>, View<const T>, const AttentionParameters<const T>&,             \
                                      const AttentionSettings&, View<const T>, View<T>, AttentionCache<T>&, Arena&); \
  template void CrossAttentionBackward(const AttentionParameters<const T>&, const AttentionSettings&,                \
                                       const AttentionCache<T>&, View<const T>, View<T>, View<T>,                    \
                                       const AttentionParameters<T>&, Arena&);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::nn
