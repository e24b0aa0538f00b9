// Eigen's QR, LU and eigenvalues, instantiated here once; its SVD, which takes as long to compile as these together,
// is in svd.cc.
#include <Eigen/Eigenvalues>
#include <Eigen/LU>
#include <Eigen/QR>
#include <algorithm>

#include "qkv/algebra/eigen-inl.h"

namespace qkv::algebra::internal {

template <typename T>
Qr<T> ThinQr(const Matrix<T>& m) {
  const Eigen::Index k = std::min(m.rows(), m.cols());
  const Eigen::HouseholderQR<Matrix<T>> qr(m);
  Qr<T> result;
  result.q = qr.householderQ() * Matrix<T>::Identity(m.rows(), k);
  result.r = qr.matrixQR().topRows(k).template triangularView<Eigen::Upper>();
  for (Eigen::Index i = 0; i < k; ++i) {
    if (result.r(i, i) < 0) result.r.row(i) *= -1, result.q.col(i) *= -1;
  }
  return result;
}

template <typename T>
SymmetricEigen<T> EigenSymmetric(const Matrix<T>& m) {
  RequireFinite("eigenvalues", m);
  const Eigen::SelfAdjointEigenSolver<Matrix<T>> solver(m);
  Require(solver.info() == Eigen::Success, "eigenvalues: the iteration on a {}x{} matrix did not end", m.rows(),
          m.cols());
  return {solver.eigenvalues().reverse(), solver.eigenvectors().rowwise().reverse()};
}

template <typename T>
std::vector<std::complex<T>> EigenvaluesOf(const Matrix<T>& m) {
  RequireFinite("eigenvalues", m);
  const Eigen::EigenSolver<Matrix<T>> solver(m, /*computeEigenvectors=*/false);
  Require(solver.info() == Eigen::Success, "eigenvalues: the iteration on a {}x{} matrix did not end", m.rows(),
          m.cols());
  const auto& values = solver.eigenvalues();
  std::vector<std::complex<T>> sorted(values.data(), values.data() + values.size());
  std::stable_sort(sorted.begin(), sorted.end(), [](auto x, auto y) { return std::abs(x) > std::abs(y); });
  return sorted;
}

template <typename T>
Matrix<T> Solve(const Matrix<T>& a, const Matrix<T>& b) {
  return a.partialPivLu().solve(b);
}

template <typename T>
std::vector<int64_t> PivotColumns(const Matrix<T>& m, int64_t rank) {
  const Eigen::ColPivHouseholderQR<Matrix<T>> qr(m);
  const auto& columns = qr.colsPermutation().indices();
  return {columns.data(), columns.data() + rank};
}

#define QKV_INSTANTIATE(T)                                               \
  template Qr<T> ThinQr(const Matrix<T>&);                               \
  template SymmetricEigen<T> EigenSymmetric(const Matrix<T>&);           \
  template std::vector<std::complex<T>> EigenvaluesOf(const Matrix<T>&); \
  template Matrix<T> Solve(const Matrix<T>&, const Matrix<T>&);          \
  template std::vector<int64_t> PivotColumns(const Matrix<T>&, int64_t);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::algebra::internal
