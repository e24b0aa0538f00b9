#include "qkv/mil/gated_pool.h"

#include <algorithm>

#include "qkv/core/rng.h"
#include "qkv/nn/ranges.h"
#include "qkv/nn/training/token_rows.h"
#include "qkv/simd/gemm/matmul.h"
#include "qkv/simd/rows/elementwise.h"

namespace qkv::mil {
namespace {

// f(begin, end) over the elements of a dense [N, Z].
template <typename F>
void ForElements(int64_t N, int64_t Z, F&& f) {
  nn::ForRowRanges(N, Z, [&](int64_t begin, int64_t end) { f(begin * Z, end * Z); });
}

nn::Dropout OfGate(nn::Dropout dropout) {
  dropout.seed = MixSeed(dropout.seed, 1);
  return dropout;
}

// A copy after dropout, or x itself without.
template <typename T>
View<T> Dropped(View<T> x, const nn::Dropout& dropout, Arena& arena) {
  if (dropout.probability == 0) return x;
  const View<T> to = arena.New<T>(x.shape());
  nn::CopyRows<T>(x, to);
  nn::ApplyDropout<T>(dropout, to);
  return to;
}

}  // namespace

template <typename T>
void GatedPoolForward(View<const T> h, const GatedPoolParameters<const T>& p, const nn::Dropout& dropout, View<T> out,
                      GatedPoolCache<T>& cache, Arena& arena) {
  const int64_t N = h.dim(0), Z = p.a.weight.dim(0);
  for (View<T>* to : {&cache.a, &cache.b, &cache.z}) *to = arena.New<T>({N, Z});
  nn::LinearForward<T>(h, p.a, cache.a);
  nn::LinearForward<T>(h, p.b, cache.b);
  ForElements(N, Z, [&](int64_t begin, int64_t end) {
    T *const a = cache.a.data(), *const b = cache.b.data();
    simd::Activate<T>(simd::Activation::kTanh, a + begin, a + begin, end - begin);
    for (int64_t i = begin; i < end; ++i) b[i] *= T(0.5);
    simd::Activate<T>(simd::Activation::kTanh, b + begin, b + begin, end - begin);
    for (int64_t i = begin; i < end; ++i) b[i] = T(0.5) + T(0.5) * b[i];
  });
  cache.dropped_a = Dropped(cache.a, dropout, arena);
  cache.dropped_b = Dropped(cache.b, OfGate(dropout), arena);
  ForElements(N, Z, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) cache.z.data()[i] = cache.dropped_a.data()[i] * cache.dropped_b.data()[i];
  });
  cache.scores = arena.New<T>({N, 1}), cache.weights = arena.New<T>({N, 1});
  nn::LinearForward<T>(cache.z, p.score, cache.scores);
  std::copy_n(cache.scores.data(), N, cache.weights.data());
  simd::Softmax<T>(cache.weights.data(), N);
  simd::MatMul<T>(cache.weights.reshape({1, N}), h, out);
}

template <typename T>
void GatedPoolBackward(View<const T> h, const GatedPoolParameters<const T>& p, const nn::Dropout& dropout,
                       const GatedPoolCache<T>& cache, View<const T> dout, View<T> dh, const GatedPoolParameters<T>& d,
                       Arena& arena) {
  const int64_t N = h.dim(0), F = h.dim(1), Z = p.a.weight.dim(0);
  const Arena::Scope scope(arena);
  const View<T> dscores = arena.New<T>({N, 1});
  simd::MatMul<T>(h, simd::Transposed(dout), dscores);  // first the gradient of the weights
  const T* const w = cache.weights.data();
  double mean = 0;
  for (int64_t i = 0; i < N; ++i) mean += static_cast<double>(w[i]) * static_cast<double>(dscores.data()[i]);
  for (int64_t i = 0; i < N; ++i) dscores.data()[i] = w[i] * (dscores.data()[i] - static_cast<T>(mean));
  nn::ForRowRanges(N, F, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t f = 0; f < F; ++f) dh.row(i)[f] = w[i] * dout.data()[f];
    }
  });
  const View<T> da = arena.New<T>({N, Z}), db = arena.New<T>({N, Z});
  nn::LinearBackward<T>(cache.z, p.score, dscores, da, false, d.score);
  ForElements(N, Z, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T dz = da.data()[i];
      da.data()[i] = dz * cache.dropped_b.data()[i];
      db.data()[i] = dz * cache.dropped_a.data()[i];
    }
  });
  if (dropout.probability > 0) {
    nn::ApplyDropout<T>(dropout, da);
    nn::ApplyDropout<T>(OfGate(dropout), db);
  }
  ForElements(N, Z, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T a = cache.a.data()[i], b = cache.b.data()[i];
      da.data()[i] *= 1 - a * a;
      db.data()[i] *= b * (1 - b);
    }
  });
  nn::LinearBackward<T>(h, p.a, da, dh, true, d.a);
  nn::LinearBackward<T>(h, p.b, db, dh, true, d.b);
}

#define QKV_INSTANTIATE(T)                                                                                         \
  template void GatedPoolForward(View<const T>, const GatedPoolParameters<const T>&, const nn::Dropout&, View<T>,  \
                                 GatedPoolCache<T>&, Arena&);                                                      \
  template void GatedPoolBackward(View<const T>, const GatedPoolParameters<const T>&, const nn::Dropout&,          \
                                  const GatedPoolCache<T>&, View<const T>, View<T>, const GatedPoolParameters<T>&, \
                                  Arena&);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::mil
