#include "qkv/nn/norm.h"

#include "qkv/nn/ranges.h"
#include "qkv/simd/rows/elementwise.h"

namespace qkv::nn {
namespace {

template <typename T>
void NormaliseRows(View<const T> x, const T* gamma, const T* beta, const simd::NormRule<T>& rule, View<T> y) {
  const int64_t D = x.dim(1);
  ForRowRanges(x.dim(0), D, [&](int64_t begin, int64_t end) {
    simd::NormRows<T>(x.row(begin), x.stride(0), end - begin, D, gamma, beta, rule, y.row(begin), y.stride(0));
  });
}

}  // namespace

template <typename T>
void NormForward(View<const T> x, const Norm<T>& norm, View<T> y) {
  const int64_t D = x.dim(1);
  Require(norm.gamma.size() == D, "norm: gamma has {} entries, x has {} features", norm.gamma.size(), D);
  Require(y.shape() == x.shape(), "norm: x is {}, y is {}", x.shape(), y.shape());
  NormaliseRows<T>(x, norm.gamma.data(), norm.beta.data(), norm.rule(), y);
}

template <typename T>
Input<T> Normalised(View<const T> x, const Norm<T>& norm, Arena& arena) {
  if (norm.folded) return {x, norm.rule()};
  const View<T> normed = arena.New<T>(x.shape());
  ForEachMatrix([&](auto from, auto to) { NormForward<T>(from, norm, to); }, x, normed);
  return normed;
}

template <typename T>
View<const T> Materialised(const Input<T>& x, Arena& arena) {
  if (!x.norm) return x.x;
  const View<T> normed = arena.New<T>(x.x.shape());
  ForEachMatrix([&](View<const T> from, View<T> to) { NormaliseRows<T>(from, nullptr, nullptr, *x.norm, to); }, x.x,
                normed);
  return normed;
}

template void NormForward(View<const float>, const Norm<float>&, View<float>);
template void NormForward(View<const double>, const Norm<double>&, View<double>);
template Input<float> Normalised(View<const float>, const Norm<float>&, Arena&);
template Input<double> Normalised(View<const double>, const Norm<double>&, Arena&);
template View<const float> Materialised(const Input<float>&, Arena&);
template View<const double> Materialised(const Input<double>&, Arena&);

}  // namespace qkv::nn
