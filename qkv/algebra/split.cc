#include "qkv/algebra/split.h"

#include <algorithm>

#include "qkv/algebra/eigen.h"

namespace qkv::algebra {

using namespace internal;

QueryKey Split(const QueryKeyView& pair, Terms terms) {
  RequirePair("split", pair);
  const Factors factors(pair, terms);
  const Svd svd = ProductSvd(factors.a, factors.b);
  const auto root = svd.s.cwiseSqrt().asDiagonal();
  return factors.Pair(root * svd.u.transpose(), root * svd.v.transpose());
}

QueryKey Split(const Merged& merged, int64_t width, double rounding) {
  RequireMatrix("split", "M", merged.matrix);
  const int64_t rows = merged.matrix.dim(0), cols = merged.matrix.dim(1);
  const bool key_bias = !merged.query_term.empty(), query_bias = !merged.key_term.empty() || key_bias;
  Matrix m = Matrix::Zero(rows + query_bias, cols + key_bias);
  m.topLeftCorner(rows, cols) = AsEigen(merged.matrix.view());
  if (!merged.key_term.empty()) m.row(rows).head(cols) = AsVector(merged.key_term.view()).transpose();
  if (key_bias) m.col(cols).head(rows) = AsVector(merged.query_term.view()), m(rows, cols) = merged.constant;

  const Svd svd = ThinSvd(m);
  int64_t rank = CountRank(svd.s, std::max(m.rows(), m.cols()));
  while (rank > 0 && svd.s.tail(svd.s.size() - rank + 1).norm() <= rounding * svd.s.norm()) --rank;
  if (width == 0) width = std::max<int64_t>(rank, 1);
  Require(rank <= width, "split: expected M of rank {} at most, got rank {}", width, rank);
  const auto factor = [&](const Matrix& vectors, int64_t inputs, bool bias) {
    Matrix f = Matrix::Zero(width, vectors.rows());
    f.topRows(rank) = svd.s.head(rank).cwiseSqrt().asDiagonal() * vectors.leftCols(rank).transpose();
    Projection p{ToTensor(f.leftCols(inputs)), {}};
    if (bias) p.bias = VectorToTensor(f.col(inputs));
    return p;
  };
  return {factor(svd.u, rows, query_bias), factor(svd.v, cols, key_bias)};
}

}  // namespace qkv::algebra
