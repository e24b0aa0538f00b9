// Eigen's decompositions, instantiated here once.
#include <Eigen/Eigenvalues>
#include <Eigen/LU>
#include <Eigen/QR>
#include <Eigen/SVD>
#include <algorithm>

#include "qkv/algebra/eigen-inl.h"

namespace qkv::algebra::internal {
namespace {

template <typename T>
void RequireFinite(const char* operation, const Matrix<T>& m) {
  Require(m.allFinite(), "{}: expected finite elements, got NaN or infinity", operation);
}

template <typename T>
void FixSigns(Svd<T>& svd) {
  for (Eigen::Index i = 0; i < svd.u.cols(); ++i) {
    Eigen::Index greatest;
    svd.u.col(i).cwiseAbs().maxCoeff(&greatest);
    if (svd.u(greatest, i) < 0) svd.u.col(i) *= -1, svd.v.col(i) *= -1;
  }
}

}  // namespace

template <typename T>
Svd<T> ThinSvd(const Matrix<T>& m) {
  RequireFinite("singular values", m);
  const Eigen::BDCSVD<Matrix<T>> svd(m, Eigen::ComputeThinU | Eigen::ComputeThinV);
  Require(svd.info() == Eigen::Success, "singular values: the iteration on a {}x{} matrix did not end", m.rows(),
          m.cols());
  Svd<T> result{svd.matrixU(), svd.singularValues(), svd.matrixV()};
  FixSigns(result);
  return result;
}

template <typename T>
Vector<T> SingularValuesOf(const Matrix<T>& m) {
  RequireFinite("singular values", m);
  const Eigen::BDCSVD<Matrix<T>> svd(m);
  Require(svd.info() == Eigen::Success, "singular values: the iteration on a {}x{} matrix did not end", m.rows(),
          m.cols());
  return svd.singularValues();
}

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
Svd<T> ProductSvd(const Matrix<T>& a, const Matrix<T>& b) {
  const Qr<T> qr_a = ThinQr<T>(a.transpose()), qr_b = ThinQr<T>(b.transpose());
  Svd<T> core = ThinSvd<T>(qr_a.r * qr_b.r.transpose());
  Svd<T> result{qr_a.q * core.u, std::move(core.s), qr_b.q * core.v};
  FixSigns(result);
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
  template Svd<T> ThinSvd(const Matrix<T>&);                             \
  template Vector<T> SingularValuesOf(const Matrix<T>&);                 \
  template Qr<T> ThinQr(const Matrix<T>&);                               \
  template Svd<T> ProductSvd(const Matrix<T>&, const Matrix<T>&);        \
  template SymmetricEigen<T> EigenSymmetric(const Matrix<T>&);           \
  template std::vector<std::complex<T>> EigenvaluesOf(const Matrix<T>&); \
  template Matrix<T> Solve(const Matrix<T>&, const Matrix<T>&);          \
  template std::vector<int64_t> PivotColumns(const Matrix<T>&, int64_t);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::algebra::internal
