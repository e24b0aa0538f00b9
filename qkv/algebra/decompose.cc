// Eigen's QR, LU and eigenvalue decompositions, instantiated once. The SVD is in svd.cc: it takes as long to
// compile as these together.
#include <Eigen/Eigenvalues>
#include <Eigen/LU>
#include <Eigen/QR>
#include <algorithm>

#include "qkv/algebra/eigen.h"

namespace qkv::algebra::internal {
namespace {

// R, its rows turned so that the diagonal is not negative.
Matrix Triangle(const Eigen::HouseholderQR<Matrix>& qr) {
  Matrix r = qr.matrixQR().topRows(std::min(qr.rows(), qr.cols())).triangularView<Eigen::Upper>();
  for (Eigen::Index i = 0; i < r.rows(); ++i) {
    if (r(i, i) < 0) r.row(i) *= -1;
  }
  return r;
}

}  // namespace

Matrix QrTriangle(const Matrix& m) { return Triangle(Eigen::HouseholderQR<Matrix>(m)); }

Qr ThinQr(const Matrix& m) {
  const Eigen::Index k = std::min(m.rows(), m.cols());
  const Eigen::HouseholderQR<Matrix> qr(m);
  Matrix q = qr.householderQ() * Matrix::Identity(m.rows(), k);
  for (Eigen::Index i = 0; i < k; ++i) {
    if (qr.matrixQR()(i, i) < 0) q.col(i) *= -1;
  }
  return {q, Triangle(qr)};
}

SymmetricEigen EigenSymmetric(const Matrix& m) {
  RequireFinite("eigenvalues", m);
  const Eigen::SelfAdjointEigenSolver<Matrix> solver(m);
  Require(solver.info() == Eigen::Success, "eigenvalues: the iteration on a {}x{} matrix did not end", m.rows(),
          m.cols());
  return {solver.eigenvalues().reverse(), solver.eigenvectors().rowwise().reverse()};
}

std::vector<std::complex<double>> ComputeEigenvalues(const Matrix& m) {
  RequireFinite("eigenvalues", m);
  const Eigen::EigenSolver<Matrix> solver(m, /*computeEigenvectors=*/false);
  Require(solver.info() == Eigen::Success, "eigenvalues: the iteration on a {}x{} matrix did not end", m.rows(),
          m.cols());
  const auto& values = solver.eigenvalues();
  std::vector<std::complex<double>> sorted(values.data(), values.data() + values.size());
  std::stable_sort(sorted.begin(), sorted.end(), [](auto x, auto y) { return std::abs(x) > std::abs(y); });
  return sorted;
}

Matrix Solve(const Matrix& a, const Matrix& b) {
  const Matrix solution = Eigen::PartialPivLU<Matrix>(a).solve(Matrix(b));
  return solution;
}

std::vector<int64_t> PivotColumns(const Matrix& m, int64_t rank) {
  const Eigen::ColPivHouseholderQR<Matrix> qr(m);
  const auto& columns = qr.colsPermutation().indices();
  return {columns.data(), columns.data() + rank};
}

}  // namespace qkv::algebra::internal
