#include "qkv/nn/norm.h"

#include "qkv/nn/ranges.h"
#include "qkv/simd/elementwise.h"

namespace qkv::nn {

template <typename T>
void NormForward(View<const T> x, const Norm<T>& norm, View<T> y) {
  const int64_t rows = x.dim(0), D = x.dim(1);
  Require(norm.gamma.size() == D, "layernorm: gamma has {} entries, x has {} features", norm.gamma.size(), D);
  Require(y.shape() == x.shape(), "layernorm: x is {}, y is {}", x.shape(), y.shape());
  ForRowRanges(rows, D, [&](int64_t begin, int64_t end) {
    simd::LayerNorm<T>(x.row(begin), x.stride(0), end - begin, D, norm.gamma.data(), norm.beta.data(), norm.eps,
                       y.row(begin), y.stride(0));
  });
}

template <typename T>
Input<T> Normalised(View<const T> x, const Norm<T>& norm, Arena& arena) {
  const int64_t B = x.dim(0), N = x.dim(1), D = x.dim(2);
  if (!norm.folded) {
    const View<T> normed = arena.New<T>({B, N, D});
    ForEachMatrix([&](auto from, auto to) { NormForward<T>(from, norm, to); }, x, normed);
    return normed;
  }
  const View<T> moments = arena.New<T>({B, N, 2});
  ForEachMatrix(
      [&](View<const T> rows, View<T> to) {
        ForRowRanges(rows.dim(0), D, [&](int64_t begin, int64_t end) {
          simd::RowMoments<T>(rows.row(begin), rows.stride(0), end - begin, D, norm.eps, to.row(begin));
        });
      },
      x, moments);
  return {x, moments};
}

template void NormForward(View<const float>, const Norm<float>&, View<float>);
template void NormForward(View<const double>, const Norm<double>&, View<double>);
template Input<float> Normalised(View<const float>, const Norm<float>&, Arena&);
template Input<double> Normalised(View<const double>, const Norm<double>&, Arena&);

}  // namespace qkv::nn
