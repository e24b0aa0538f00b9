#include "qkv/algebra/projection.h"

#include "qkv/algebra/eigen.h"

namespace qkv::algebra {

using namespace internal;

ProjectionView Head(const ProjectionView& layer, int64_t h, int64_t heads) {
  RequireProjection("head", layer);
  const int64_t outputs = layer.weight.dim(0);
  Require(heads > 0 && outputs % heads == 0, "head: expected a number of heads that divides {} outputs, got {}",
          outputs, heads);
  Require(h >= 0 && h < heads, "head: expected 0 <= h < {}, got {}", heads, h);
  const int64_t E = outputs / heads;
  return {layer.weight.slice(0, h * E, (h + 1) * E),
          layer.bias.empty() ? View<const double>() : layer.bias.slice(0, h * E, (h + 1) * E)};
}

View<const double> OutputHead(View<const double> output, int64_t h, int64_t heads) {
  return Transpose(Head({Transpose(output), {}}, h, heads).weight);
}

View<const double> Transpose(View<const double> matrix) {
  RequireMatrix("transpose", "the argument", matrix);
  return {matrix.data(), Shape{matrix.dim(1), matrix.dim(0)}, {matrix.stride(1), matrix.stride(0)}};
}

Tensor<double> Augment(const ProjectionView& projection) {
  RequireProjection("augment", projection);
  Matrix augmented(projection.weight.dim(0), projection.weight.dim(1) + 1);
  augmented << AsEigen(projection.weight), BiasOrZero(projection);
  return ToTensor(augmented);
}

Tensor<double> AppendOnes(View<const double> tokens) {
  RequireMatrix("append ones", "tokens", tokens);
  Matrix augmented(tokens.dim(0), tokens.dim(1) + 1);
  augmented << AsEigen(tokens), Vector::Ones(tokens.dim(0));
  return ToTensor(augmented);
}

Tensor<double> Apply(const ProjectionView& projection, View<const double> tokens) {
  RequireProjection("apply", projection);
  RequireMatrix("apply", "tokens", tokens);
  Require(tokens.dim(1) == projection.weight.dim(1), "apply: expected tokens of {} features, got {}",
          projection.weight.dim(1), tokens.shape());
  Matrix out = AsEigen(tokens) * AsEigen(projection.weight).transpose();
  if (!projection.bias.empty()) out.rowwise() += AsVector(projection.bias).transpose();
  return ToTensor(out);
}

}  // namespace qkv::algebra
