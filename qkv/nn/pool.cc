#include "qkv/nn/pool.h"

#include <algorithm>

namespace qkv::nn {

template <typename T>
void MeanPool(View<const T> x, int64_t begin, View<T> out) {
  for (int64_t b = 0; b < x.dim(0); ++b) {
    T* sum = out.row(b);
    std::fill_n(sum, x.dim(2), T(0));
    for (int64_t n = begin; n < x.dim(1); ++n) {
      const T* token = x.at(b, n);
      for (int64_t d = 0; d < x.dim(2); ++d) sum[d] += token[d];
    }
    for (int64_t d = 0; d < x.dim(2); ++d) sum[d] /= static_cast<T>(x.dim(1) - begin);
  }
}

template <typename T>
void MaxPool(View<const T> x, int64_t begin, View<T> out) {
  for (int64_t b = 0; b < x.dim(0); ++b) {
    T* greatest = out.row(b);
    std::copy_n(x.at(b, begin), x.dim(2), greatest);
    for (int64_t n = begin + 1; n < x.dim(1); ++n) {
      const T* token = x.at(b, n);
      for (int64_t d = 0; d < x.dim(2); ++d) greatest[d] = token[d] > greatest[d] ? token[d] : greatest[d];
    }
  }
}

template <typename T>
void AttentionPoolForward(View<const T> x, int64_t begin, const AttentionPool<T>& pool, View<T> out, Arena& arena) {
  const Arena::Scope scope(arena);
  const int64_t B = x.dim(0), D = x.dim(2);
  // The latent is the same for every image: batch stride 0.
  const View<const T> latent(pool.latent.data(), {B, 1, D}, {0, D, 1});
  const View<T> y(out.data(), {B, 1, D}, {out.stride(0), D, 1}), normed = arena.New<T>({B, 1, D});
  AttentionForward<T>(latent, x.slice(1, begin, x.dim(1)), pool.attention, nullptr, {}, y, arena);
  NormForward<T>(out, pool.norm, normed.reshape({B, D}));
  MlpForward<T>(normed, pool.mlp, nullptr, y, y, arena);
}

template void MeanPool(View<const float>, int64_t, View<float>);
template void MeanPool(View<const double>, int64_t, View<double>);
template void MaxPool(View<const float>, int64_t, View<float>);
template void MaxPool(View<const double>, int64_t, View<double>);
template void AttentionPoolForward(View<const float>, int64_t, const AttentionPool<float>&, View<float>, Arena&);
template void AttentionPoolForward(View<const double>, int64_t, const AttentionPool<double>&, View<double>, Arena&);

}  // namespace qkv::nn
