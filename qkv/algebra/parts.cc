#include "qkv/algebra/parts.h"

#include <algorithm>
#include <cmath>

#include "qkv/algebra/eigen.h"

namespace qkv::algebra {

using namespace internal;

namespace {

Matrix Square(const char* operation, View<const double> matrix) {
  RequireMatrix(operation, "M", matrix);
  Require(matrix.dim(0) == matrix.dim(1), "{}: expected a square M, got {}", operation, matrix.shape());
  return AsEigen(matrix);
}

void RequireAlike(const char* operation, View<const double> query, View<const double> key) {
  RequireMatrix(operation, "W_Q", query);
  Require(query.shape() == key.shape(), "{}: expected W_Q and W_K of one shape, got {} and {}", operation,
          query.shape(), key.shape());
}

// The best fit from the first `rank` allowed eigenvalues of M_s, sorted by magnitude.
SymmetricFit Fit(View<const double> query, View<const double> key, int64_t rank, bool allow_negative) {
  RequireAlike("symmetric fit", query, key);
  const int64_t E = query.dim(0), D = query.dim(1);
  Require(rank >= 1 && rank <= D, "symmetric fit: expected 1 <= rank <= {}, got {}", D, rank);
  // [W_Qᵀ W_Kᵀ] = Q [R_Q R_K], so that M = Q R_Q R_Kᵀ Qᵀ.
  Matrix both(D, 2 * E);
  both << AsEigen(query).transpose(), AsEigen(key).transpose();
  const Qr qr = ThinQr(both);
  const Matrix core = qr.r.leftCols(E) * qr.r.rightCols(E).transpose();
  const SymmetricEigen eigen = EigenSymmetric((core + core.transpose()) / 2);

  std::vector<Eigen::Index> taken;
  for (Eigen::Index i = 0; i < eigen.values.size(); ++i) {
    if (eigen.values(i) > 0 || (allow_negative && eigen.values(i) < 0)) taken.push_back(i);
  }
  std::stable_sort(taken.begin(), taken.end(),
                   [&](auto i, auto j) { return std::abs(eigen.values(i)) > std::abs(eigen.values(j)); });
  if (std::ssize(taken) > rank) taken.resize(static_cast<size_t>(rank));

  Matrix weight = Matrix::Zero(rank, D);
  Vector signs = Vector::Zero(rank), rest = eigen.values;
  for (size_t r = 0; r < taken.size(); ++r) {
    const auto row = static_cast<Eigen::Index>(r);
    const double value = eigen.values(taken[r]);
    weight.row(row) = std::sqrt(std::abs(value)) * (qr.q * eigen.vectors.col(taken[r])).transpose();
    signs(row) = value > 0 ? 1.0 : double(-1);
    rest(taken[r]) = 0;
  }
  SymmetricFit fit;
  fit.weight = ToTensor(weight), fit.signs = VectorToTensor(signs);
  fit.residual = std::hypot(((core - core.transpose()) / 2).norm(), rest.norm());
  const double norm = core.norm();
  fit.residual_relative = norm > 0 ? fit.residual / norm : 0;
  return fit;
}

}  // namespace

Tensor<double> SymmetricPart(View<const double> matrix) {
  const Matrix M = Square("symmetric part", matrix);
  return ToTensor((M + M.transpose()) / 2);
}

Tensor<double> AntisymmetricPart(View<const double> matrix) {
  const Matrix M = Square("antisymmetric part", matrix);
  return ToTensor((M - M.transpose()) / 2);
}

double SymmetryScore(View<const double> matrix) {
  const Matrix M = Square("symmetry score", matrix);
  const double squares = M.squaredNorm();
  return squares > 0 ? M.cwiseProduct(M.transpose()).sum() / squares : 0;
}

double SymmetryScore(View<const double> query, View<const double> key) {
  RequireAlike("symmetry score", query, key);
  const auto q = AsEigen(query), k = AsEigen(key);
  const Matrix kq = k * q.transpose(), qq = q * q.transpose(), kk = k * k.transpose();
  const double squares = qq.cwiseProduct(kk).sum();  // both symmetric: the trace of their product
  return squares > 0 ? kq.cwiseProduct(kq.transpose()).sum() / squares : 0;
}

SymmetricFit FitShared(View<const double> query, View<const double> key, int64_t rank) {
  return Fit(query, key, rank, /*allow_negative=*/false);
}

SymmetricFit FitSymmetric(View<const double> query, View<const double> key, int64_t rank) {
  return Fit(query, key, rank, /*allow_negative=*/true);
}

}  // namespace qkv::algebra
