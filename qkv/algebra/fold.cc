#include "qkv/algebra/fold.h"

#include "qkv/algebra/eigen-inl.h"

namespace qkv::algebra {

using namespace internal;

template <typename T>
Projection<T> FoldLayerNorm(const ProjectionView<T>& projection, View<const T> gamma, View<const T> beta) {
  RequireProjection("fold LayerNorm", projection);
  const int64_t D = projection.weight.dim(1);
  Require(gamma.shape() == Shape{D}, "fold LayerNorm: expected γ of [{}], got {}", D, gamma.shape());
  Require(beta.empty() || beta.shape() == Shape{D}, "fold LayerNorm: expected β of [{}], got {}", D, beta.shape());
  const auto W = AsEigen(projection.weight);
  Projection<T> folded{ToTensor(W * AsVector(gamma).asDiagonal()), {}};
  if (!beta.empty()) {
    folded.bias = ToTensor<T>(W * AsVector(beta) + BiasOrZero(projection));
  } else if (!projection.bias.empty()) {
    folded.bias = ToTensor<T>(AsVector(projection.bias));
  }
  return folded;
}

template <typename T>
Projection<T> Centre(const ProjectionView<T>& projection) {
  RequireProjection("centre", projection);
  Matrix<T> W = AsEigen(projection.weight);
  W.colwise() -= W.rowwise().mean().eval();
  Projection<T> centred{ToTensor(W), {}};
  if (!projection.bias.empty()) centred.bias = ToTensor<T>(AsVector(projection.bias));
  return centred;
}

template <typename T>
Tensor<T> CentreBoth(View<const T> matrix) {
  RequireMatrix("centre", "M", matrix);
  Require(matrix.dim(0) == matrix.dim(1), "centre: expected a square M, got {}", matrix.shape());
  Matrix<T> M = AsEigen(matrix);
  M.colwise() -= M.rowwise().mean().eval();
  M.rowwise() -= M.colwise().mean().eval();
  return ToTensor(M);
}

template <typename T>
Tensor<T> CentreOutputs(View<const T> weight) {
  RequireMatrix("centre outputs", "a weight", weight);
  Matrix<T> W = AsEigen(weight);
  W.rowwise() -= W.colwise().mean().eval();
  return ToTensor(W);
}

template <typename T>
Tensor<T> Normalise(View<const T> tokens, T eps) {
  RequireMatrix("normalise", "tokens", tokens);
  Matrix<T> X = AsEigen(tokens);
  X.colwise() -= X.rowwise().mean().eval();
  const Vector<T> variance = X.rowwise().squaredNorm() / static_cast<T>(X.cols());
  return ToTensor((variance.array() + eps).rsqrt().matrix().asDiagonal() * X);
}

#define QKV_INSTANTIATE(T)                                                                      \
  template Projection<T> FoldLayerNorm(const ProjectionView<T>&, View<const T>, View<const T>); \
  template Projection<T> Centre(const ProjectionView<T>&);                                      \
  template Tensor<T> CentreBoth(View<const T>);                                                 \
  template Tensor<T> CentreOutputs(View<const T>);                                              \
  template Tensor<T> Normalise(View<const T>, T);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::algebra
