#include "qkv/algebra/truncate.h"

#include <Eigen/Cholesky>
#include <algorithm>

#include "qkv/algebra/eigen.h"

namespace qkv::algebra {

using namespace internal;

namespace {

void RequireRank(const Factors& factors, int64_t rank) {
  const int64_t greatest = std::min({factors.a.rows(), factors.a.cols(), factors.b.cols()});
  Require(rank >= 1 && rank <= greatest, "truncate: expected 1 <= rank <= {}, got {}", greatest, rank);
}

// The triangular factor of the tokens' projections: QᵀQ = RᵀR for Q = [X 1] Aᵀ.
Matrix TokenTriangle(const Matrix& factor, bool bias, View<const double> tokens) {
  const int64_t features = factor.cols() - bias;
  Require(tokens.rank() == 2 && tokens.dim(0) > 0 && tokens.dim(1) == features,
          "truncate: expected calibration tokens of {} features, got {}", features, tokens.shape());
  Matrix projected = AsEigen(tokens) * factor.leftCols(features).transpose();
  if (bias) projected.rowwise() += factor.rightCols(1).transpose().row(0);
  return QrTriangle(projected);
}

}  // namespace

QueryKey Truncate(const QueryKeyView& pair, int64_t rank, Terms terms) {
  RequirePair("truncate", pair);
  const Factors factors(pair, terms);
  RequireRank(factors, rank);
  const Svd svd = ProductSvd(factors.a, factors.b);
  const auto root = svd.s.head(rank).cwiseSqrt().asDiagonal();
  return factors.Pair(root * svd.u.leftCols(rank).transpose(), root * svd.v.leftCols(rank).transpose());
}

QueryKey TruncateForData(const QueryKeyView& pair, View<const double> queries, View<const double> keys, int64_t rank,
                         Terms terms) {
  RequirePair("truncate", pair);
  const Factors factors(pair, terms);
  RequireRank(factors, rank);
  const Matrix r_q = TokenTriangle(factors.a, factors.query_bias, queries);
  const Matrix r_k = TokenTriangle(factors.b, factors.key_bias, keys);
  const Svd svd = ThinSvd(r_q * r_k.transpose());
  // Directions that the tokens do not span have singular values of rounding size, and contribute nothing.
  const int64_t kept = std::min<int64_t>(rank, CountRank(svd.s, std::max<int64_t>(r_q.cols(), r_q.rows())));
  const Vector root = svd.s.head(kept).cwiseSqrt().cwiseInverse();
  Matrix a = Matrix::Zero(rank, factors.a.cols()), b = Matrix::Zero(rank, factors.b.cols());
  a.topRows(kept) = root.asDiagonal() * (svd.v.leftCols(kept).transpose() * r_k) * factors.a;
  b.topRows(kept) = root.asDiagonal() * (svd.u.leftCols(kept).transpose() * r_q) * factors.b;
  return factors.Pair(a, b);
}

std::optional<TokenFactors> FactorTokens(View<const double> query_gram, View<const double> key_gram) {
  RequireMatrix("truncate", "QᵀQ", query_gram), RequireMatrix("truncate", "KᵀK", key_gram);
  // K = K₁ Lᵀ with orthonormal K₁, and the singular vectors of Q L on the side of K₁ are W of Lᵀ QᵀQ L = W Σ² Wᵀ.
  const Eigen::LLT<Matrix> cholesky{Matrix(AsEigen(key_gram))};
  if (cholesky.info() != Eigen::Success) return {};
  const Matrix l = cholesky.matrixL();
  if (!(l.diagonal().minCoeff() > 1e-5 * l.diagonal().maxCoeff())) return {};
  const Matrix w = EigenSymmetric(l.transpose() * AsEigen(query_gram) * l).vectors;
  return TokenFactors{ToTensor((l * w).transpose()), ToTensor(Matrix(cholesky.matrixU().solve(w)).transpose())};
}

}  // namespace qkv::algebra
