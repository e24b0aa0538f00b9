#include "qkv/algebra/projection.h"

#include "qkv/algebra/eigen-inl.h"

namespace qkv::algebra {

using namespace internal;

template <typename T>
ProjectionView<T> Head(const ProjectionView<T>& layer, int64_t h, int64_t heads) {
  RequireProjection("head", layer);
  const int64_t outputs = layer.weight.dim(0);
  Require(heads > 0 && outputs % heads == 0, "head: expected a number of heads that divides {} outputs, got {}",
          outputs, heads);
  Require(h >= 0 && h < heads, "head: expected 0 <= h < {}, got {}", heads, h);
  const int64_t E = outputs / heads;
  return {layer.weight.slice(0, h * E, (h + 1) * E),
          layer.bias.empty() ? View<const T>() : layer.bias.slice(0, h * E, (h + 1) * E)};
}

template <typename T>
View<const T> OutputHead(View<const T> output, int64_t h, int64_t heads) {
  return Transpose<T>(Head<T>({Transpose<T>(output), {}}, h, heads).weight);
}

template <typename T>
View<const T> Transpose(View<const T> matrix) {
  RequireMatrix("transpose", "the argument", matrix);
  return {matrix.data(), Shape{matrix.dim(1), matrix.dim(0)}, {matrix.stride(1), matrix.stride(0)}};
}

template <typename T>
Tensor<T> Augment(const ProjectionView<T>& projection) {
  RequireProjection("augment", projection);
  Matrix<T> augmented(projection.weight.dim(0), projection.weight.dim(1) + 1);
  augmented << AsEigen(projection.weight), BiasOrZero(projection);
  return ToTensor(augmented);
}

template <typename T>
Tensor<T> AppendOnes(View<const T> tokens) {
  RequireMatrix("append ones", "tokens", tokens);
  Matrix<T> augmented(tokens.dim(0), tokens.dim(1) + 1);
  augmented << AsEigen(tokens), Vector<T>::Ones(tokens.dim(0));
  return ToTensor(augmented);
}

template <typename T>
Tensor<T> Apply(const ProjectionView<T>& projection, View<const T> tokens) {
  RequireProjection("apply", projection);
  RequireMatrix("apply", "tokens", tokens);
  Require(tokens.dim(1) == projection.weight.dim(1), "apply: expected tokens of {} features, got {}",
          projection.weight.dim(1), tokens.shape());
  Matrix<T> out = AsEigen(tokens) * AsEigen(projection.weight).transpose();
  if (!projection.bias.empty()) out.rowwise() += AsVector(projection.bias).transpose();
  return ToTensor(out);
}

#define QKV_INSTANTIATE(T)                                                     \
  template ProjectionView<T> Head(const ProjectionView<T>&, int64_t, int64_t); \
  template View<const T> OutputHead(View<const T>, int64_t, int64_t);          \
  template View<const T> Transpose(View<const T>);                             \
  template Tensor<T> Augment(const ProjectionView<T>&);                        \
  template Tensor<T> AppendOnes(View<const T>);                                \
  template Tensor<T> Apply(const ProjectionView<T>&, View<const T>);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::algebra
