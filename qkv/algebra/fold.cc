#include "qkv/algebra/fold.h"

#include "qkv/algebra/eigen.h"

namespace qkv::algebra {

using namespace internal;

Projection FoldLayerNorm(const ProjectionView& projection, View<const double> gamma, View<const double> beta) {
  RequireProjection("fold LayerNorm", projection);
  const int64_t D = projection.weight.dim(1);
  Require(gamma.shape() == Shape{D}, "fold LayerNorm: expected γ of [{}], got {}", D, gamma.shape());
  Require(beta.empty() || beta.shape() == Shape{D}, "fold LayerNorm: expected β of [{}], got {}", D, beta.shape());
  const auto W = AsEigen(projection.weight);
  Projection folded{ToTensor(W * AsVector(gamma).asDiagonal()), {}};
  if (!beta.empty()) {
    folded.bias = VectorToTensor(W * AsVector(beta) + BiasOrZero(projection));
  } else if (!projection.bias.empty()) {
    folded.bias = VectorToTensor(AsVector(projection.bias));
  }
  return folded;
}

Projection Centre(const ProjectionView& projection) {
  RequireProjection("centre", projection);
  Matrix W = AsEigen(projection.weight);
  W.colwise() -= W.rowwise().mean().eval();
  Projection centred{ToTensor(W), {}};
  if (!projection.bias.empty()) centred.bias = VectorToTensor(AsVector(projection.bias));
  return centred;
}

Tensor<double> CentreBoth(View<const double> matrix) {
  RequireMatrix("centre", "M", matrix);
  Require(matrix.dim(0) == matrix.dim(1), "centre: expected a square M, got {}", matrix.shape());
  Matrix M = AsEigen(matrix);
  M.colwise() -= M.rowwise().mean().eval();
  M.rowwise() -= M.colwise().mean().eval();
  return ToTensor(M);
}

Tensor<double> CentreOutputs(View<const double> weight) {
  RequireMatrix("centre outputs", "a weight", weight);
  Matrix W = AsEigen(weight);
  W.rowwise() -= W.colwise().mean().eval();
  return ToTensor(W);
}

Tensor<double> Normalise(View<const double> tokens, double eps) {
  RequireMatrix("normalise", "tokens", tokens);
  Matrix X = AsEigen(tokens);
  X.colwise() -= X.rowwise().mean().eval();
  const Vector variance = X.rowwise().squaredNorm() / static_cast<double>(X.cols());
  return ToTensor((variance.array() + eps).rsqrt().matrix().asDiagonal() * X);
}

}  // namespace qkv::algebra
