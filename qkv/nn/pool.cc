#include "qkv/nn/pool.h"

#include <algorithm>
#include <array>

namespace qkv::nn {

template <typename T>
void MeanPool(View<const T> x, int64_t begin, View<T> out) {
  // In double, a block of features after the other: sums of thousands of tokens lose digits in float.
  constexpr int64_t kBlock = 64;
  for (int64_t b = 0; b < x.dim(0); ++b) {
    for (int64_t first = 0; first < x.dim(2); first += kBlock) {
      const int64_t features = std::min(kBlock, x.dim(2) - first);
      std::array<double, kBlock> sums{};
      for (int64_t n = begin; n < x.dim(1); ++n) {
        const T* token = x.at(b, n) + first;
        for (int64_t d = 0; d < features; ++d) sums[static_cast<size_t>(d)] += token[d];
      }
      const auto count = static_cast<double>(x.dim(1) - begin);
      for (int64_t d = 0; d < features; ++d)
        out.row(b)[first + d] = static_cast<T>(sums[static_cast<size_t>(d)] / count);
    }
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
