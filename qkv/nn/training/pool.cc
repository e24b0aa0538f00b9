#include "qkv/nn/training/pool.h"

#include <algorithm>

#include "qkv/attention/attention.h"
#include "qkv/core/parallel.h"
#include "qkv/nn/rows.h"
#include "qkv/simd/rows/elementwise_backward.h"

namespace qkv::nn {
namespace {

template <typename T>
void RequirePooled(View<const T> pooled, int64_t begin, View<const T> x) {
  Require(pooled.shape() == Shape({x.dim(0), x.dim(2)}) && 0 <= begin && begin < x.dim(1),
          "pool: vectors {} are not of the tokens from {} on of {}", pooled.shape(), begin, x.shape());
}

// Tokens that are not pooled have zero gradient.
template <typename T>
void ClearPrefix(View<T> dx, int64_t begin) {
  for (int64_t b = 0; b < dx.dim(0); ++b) {
    for (int64_t n = 0; n < begin; ++n) std::fill_n(dx.at(b, n), dx.dim(2), T(0));
  }
}

// Views rows [B, D] as heads, [B, H, 1, D / H].
template <typename T>
View<T> AsHeads(View<T> rows, int64_t heads) {
  const int64_t E = rows.dim(1) / heads;
  return View<T>(rows.data(), {rows.dim(0), heads, 1, E}, {rows.stride(0), E, E, 1});
}

// Views keys (part 0) or values (part 1) of [B, n, 2·D] as heads, [B, H, n, D / H].
template <typename T>
View<T> AsHeads(View<T> key_value, int64_t part, int64_t heads) {
  const int64_t n = key_value.dim(1), D = key_value.dim(2) / 2, E = D / heads;
  return View<T>(key_value.at(0, 0, part * D), {key_value.dim(0), heads, n, E}, {n * 2 * D, E, 2 * D, 1});
}

}  // namespace

template <typename T>
void MeanPoolBackward(View<const T> dout, int64_t begin, View<T> dx, bool add) {
  RequirePooled<T>(dout, begin, dx);
  const int64_t N = dx.dim(1), D = dx.dim(2);
  const T share = T(1) / static_cast<T>(N - begin);
  if (!add) ClearPrefix(dx, begin);
  ParallelFor(dx.dim(0), 1, [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) {
      const T* from = dout.row(b);
      for (int64_t n = begin; n < N; ++n) {
        T* to = dx.at(b, n);
        for (int64_t i = 0; i < D; ++i) to[i] = add ? to[i] + share * from[i] : share * from[i];
      }
    }
  });
}

template <typename T>
void MaxPoolBackward(View<const T> x, int64_t begin, View<const T> dout, View<T> dx, bool add) {
  RequirePooled<T>(dout, begin, x);
  Require(x.shape() == dx.shape(), "pool: tokens {} and gradients {}", x.shape(), dx.shape());
  const int64_t N = x.dim(1), D = x.dim(2);
  if (!add) ClearPrefix(dx, begin);
  ParallelFor(x.dim(0), 1, [&](int64_t first, int64_t last) {
    constexpr int64_t kFeatures = 16;  // at a time
    for (int64_t b = first; b < last; ++b) {
      for (int64_t from = 0; from < D; from += kFeatures) {
        const int64_t count = std::min(kFeatures, D - from);
        T greatest[kFeatures], share[kFeatures] = {};
        std::copy_n(x.at(b, begin, from), count, greatest);
        for (int64_t n = begin + 1; n < N; ++n) {
          const T* token = x.at(b, n, from);
          for (int64_t i = 0; i < count; ++i) greatest[i] = token[i] > greatest[i] ? token[i] : greatest[i];
        }
        for (int64_t n = begin; n < N; ++n) {
          const T* token = x.at(b, n, from);
          for (int64_t i = 0; i < count; ++i) share[i] += token[i] == greatest[i] ? T(1) : T(0);
        }
        for (int64_t i = 0; i < count; ++i) share[i] = *dout.at(b, from + i) / share[i];
        for (int64_t n = begin; n < N; ++n) {
          const T* token = x.at(b, n, from);
          T* to = dx.at(b, n, from);
          for (int64_t i = 0; i < count; ++i) {
            const T gradient = token[i] == greatest[i] ? share[i] : T(0);
            to[i] = add ? to[i] + gradient : gradient;
          }
        }
      }
    }
  });
}

template <typename T>
void AttentionPoolForward(View<const T> x, int64_t begin, const AttentionPoolParameters<const T>& p,
                          const AttentionPoolSettings& settings, View<T> out, AttentionPoolCache<T>& cache,
                          Arena& arena) {
  RequirePooled<T>(out, begin, x);
  const int64_t B = x.dim(0), n = x.dim(1) - begin, D = x.dim(2), H = settings.heads;
  Require(D % H == 0 && p.latent.size() == D, "attention pool: {} heads and a query of {} for {} features", H,
          p.latent.size(), D);
  cache.query = arena.New<T>({1, D});
  cache.key_value = arena.New<T>({B, n, 2 * D});
  cache.joined = arena.New<T>({B, D}), cache.lse = arena.New<T>({B, H, 1});
  cache.y = arena.New<T>({B, D});
  cache.normed = arena.New<T>({B, D}), cache.moments = arena.New<T>({B, 2});

  const simd::Precision precision = settings.mlp.precision;
  LinearForward<T>(p.latent.reshape({1, D}), p.query, cache.query, {}, precision);
  ForEachMatrix([&](View<const T> from, View<T> to) { LinearForward<T>(from, p.key_value, to, {}, precision); },
                x.slice(1, begin, x.dim(1)), cache.key_value);
  // The query is the same for every image: batch stride 0.
  const View<const T> query(cache.query.data(), {B, H, 1, D / H}, {0, D / H, D / H, 1});
  attention::Attention<T>(query, AsHeads(cache.key_value, 0, H), AsHeads(cache.key_value, 1, H), {},
                          AsHeads(cache.joined, H), arena, cache.lse);
  LinearForward<T>(cache.joined, p.projection, cache.y, {}, precision);
  NormForward<T>(cache.y, p.norm, cache.normed, cache.moments);
  MlpForward<T>(cache.normed, p.mlp, settings.mlp, cache.y, out, cache.mlp, arena);
}

template <typename T>
void AttentionPoolBackward(View<const T> x, int64_t begin, const AttentionPoolParameters<const T>& p,
                           const AttentionPoolSettings& settings, const AttentionPoolCache<T>& cache,
                           View<const T> dout, View<T> dx, bool add, const AttentionPoolParameters<T>& d,
                           Arena& arena) {
  RequirePooled<T>(dout, begin, x);
  const Arena::Scope scope(arena);
  const int64_t B = x.dim(0), N = x.dim(1), D = x.dim(2), H = settings.heads;
  const View<T> dy = arena.New<T>({B, D}), dnormed = arena.New<T>({B, D}), djoined = arena.New<T>({B, D});
  MlpBackward<T>(cache.normed, p.mlp, settings.mlp, cache.mlp, dout, dnormed, false, d.mlp, arena);
  for (int64_t b = 0; b < B; ++b) std::copy_n(dout.row(b), D, dy.row(b));
  NormBackward<T>(cache.y, cache.moments, p.norm, dnormed, dy, true, d.norm);
  const simd::Precision precision = settings.mlp.precision;
  LinearBackward<T>(cache.joined, p.projection, dy, djoined, false, d.projection, precision);

  const View<T> dquery = arena.New<T>({B, D}), dkey_value = arena.New<T>(cache.key_value.shape());
  attention::BackwardTensors<T> tensors;
  tensors.q = View<const T>(cache.query.data(), {B, H, 1, D / H}, {0, D / H, D / H, 1});
  tensors.k = AsHeads(cache.key_value, 0, H), tensors.v = AsHeads(cache.key_value, 1, H);
  tensors.out = AsHeads(cache.joined, H), tensors.lse = cache.lse, tensors.dout = AsHeads(djoined, H);
  tensors.dq = AsHeads(dquery, H), tensors.dk = AsHeads(dkey_value, 0, H), tensors.dv = AsHeads(dkey_value, 1, H);
  attention::AttentionBackward<T>(tensors, {}, arena);

  const View<T> dquery_sum = arena.New<T>({1, D});
  std::fill_n(dquery_sum.data(), D, T(0));
  simd::AddRows<T>(dquery.data(), D, B, D, dquery_sum.data());
  const View<T> dlatent = d.latent.empty() ? d.latent : d.latent.reshape({1, D});
  LinearBackward<T>(p.latent.reshape({1, D}), p.query, dquery_sum, dlatent, true, d.query, precision);
  if (!add) ClearPrefix(dx, begin);
  ForEachMatrix([&](View<const T> from, View<const T> dto,
                    View<T> dfrom) { LinearBackward<T>(from, p.key_value, dto, dfrom, add, d.key_value, precision); },
                x.slice(1, begin, N), View<const T>(dkey_value), dx.slice(1, begin, N));
}

#define QKV_INSTANTIATE(T)                                                                                       \
  template void MeanPoolBackward(View<const T>, int64_t, View<T>, bool);                                         \
  template void MaxPoolBackward(View<const T>, int64_t, View<const T>, View<T>, bool);                           \
  template void AttentionPoolForward(View<const T>, int64_t, const AttentionPoolParameters<const T>&,            \
                                     const AttentionPoolSettings&, View<T>, AttentionPoolCache<T>&, Arena&);     \
  template void AttentionPoolBackward(View<const T>, int64_t, const AttentionPoolParameters<const T>&,           \
                                      const AttentionPoolSettings&, const AttentionPoolCache<T>&, View<const T>, \
                                      View<T>, bool, const AttentionPoolParameters<T>&, Arena&);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::nn
