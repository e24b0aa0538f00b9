#include "qkv/algebra/eigen.h"

namespace qkv::algebra::internal {

void RequireMatrix(const char* operation, const char* what, View<const double> matrix) {
  Require(matrix.rank() == 2 && matrix.size() > 0, "{}: expected {} as a matrix, got {}", operation, what,
          matrix.shape());
}

void RequireProjection(const char* operation, const ProjectionView& p) {
  RequireMatrix(operation, "a weight", p.weight);
  Require(p.bias.empty() || p.bias.shape() == Shape{p.weight.dim(0)}, "{}: expected a bias of {} elements, got {}",
          operation, p.weight.dim(0), p.bias.shape());
}

void RequirePair(const char* operation, const QueryKeyView& pair) {
  RequireProjection(operation, pair.query);
  RequireProjection(operation, pair.key);
  Require(pair.query.weight.dim(0) == pair.key.weight.dim(0),
          "{}: expected queries and keys of one width, got weights {} and {}", operation, pair.query.weight.shape(),
          pair.key.weight.shape());
}

void RequireFinite(const char* operation, const Matrix& m) {
  Require(m.allFinite(), "{}: expected finite elements, got NaN or infinity", operation);
}

Vector BiasOrZero(const ProjectionView& p) {
  if (p.bias.empty()) return Vector::Zero(p.weight.dim(0));
  return AsVector(p.bias);
}

Tensor<double> ToTensor(const Matrix& m) {
  auto tensor = Tensor<double>::Uninitialised({m.rows(), m.cols()});
  using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Eigen::Map<RowMajor>(tensor.data(), m.rows(), m.cols()) = m;
  return tensor;
}

Tensor<double> VectorToTensor(const Vector& v) {
  auto tensor = Tensor<double>::Uninitialised({v.rows()});
  Eigen::Map<Vector>(tensor.data(), v.rows()) = v;
  return tensor;
}

Factors::Factors(const QueryKeyView& pair, Terms terms)
    : query_bias(!pair.query.bias.empty() || (terms == Terms::kExact && !pair.key.bias.empty())),
      key_bias(query_bias && terms == Terms::kExact) {
  const auto side = [](const ProjectionView& p, bool bias) {
    Matrix factor(p.weight.dim(0), p.weight.dim(1) + bias);
    factor.leftCols(p.weight.dim(1)) = AsEigen(p.weight);
    if (bias) factor.rightCols(1) = BiasOrZero(p);
    return factor;
  };
  a = side(pair.query, query_bias), b = side(pair.key, key_bias);
}

QueryKey Factors::Pair(const Matrix& a_, const Matrix& b_) const {
  const auto projection = [](const Matrix& factor, bool bias) {
    Projection p;
    p.weight = ToTensor(factor.leftCols(factor.cols() - bias));
    if (bias) p.bias = VectorToTensor(factor.rightCols(1));
    return p;
  };
  return {projection(a_, query_bias), projection(b_, key_bias)};
}

int64_t CountRank(const Vector& s, int64_t largest_dimension, double epsilon) {
  const double least = s.size() > 0 ? static_cast<double>(largest_dimension) * epsilon * s(0) : 0;
  return (s.array() > least).count();
}

}  // namespace qkv::algebra::internal
