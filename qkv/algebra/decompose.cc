// Eigen's QR, LU and eigenvalue decompositions, instantiated once, in double. The SVD is in svd.cc: it takes as long to
// compile as these together.
#include <Eigen/Eigenvalues>
#include <Eigen/LU>
#include <Eigen/QR>
#include <algorithm>

#include "qkv/algebra/eigen-inl.h"

namespace qkv::algebra::internal {
namespace {

// Decompositions run in double for float matrices too: each instantiation takes seconds to compile.
using Wide = Matrix<double>;

}  // namespace

template <typename T>
Qr<T> ThinQr(const Matrix<T>& m) {
  const Eigen::Index k = std::min(m.rows(), m.cols());
  const Eigen::HouseholderQR<Wide> qr(m.template cast<double>());
  Wide q = qr.householderQ() * Wide::Identity(m.rows(), k);
  Wide r = qr.matrixQR().topRows(k).template triangularView<Eigen::Upper>();
  for (Eigen::Index i = 0; i < k; ++i) {
    if (r(i, i) < 0) r.row(i) *= -1, q.col(i) *= -1;
  }
  return {q.template cast<T>(), r.template cast<T>()};
}

template <typename T>
SymmetricEigen<T> EigenSymmetric(const Matrix<T>& m) {
  RequireFinite("eigenvalues", m);
  const Eigen::SelfAdjointEigenSolver<Wide> solver(m.template cast<double>());
  Require(solver.info() == Eigen::Success, "eigenvalues: the iteration on a {}x{} matrix did not end", m.rows(),
          m.cols());
  return {solver.eigenvalues().reverse().template cast<T>(),
          solver.eigenvectors().rowwise().reverse().template cast<T>()};
}

template <typename T>
std::vector<std::complex<T>> ComputeEigenvalues(const Matrix<T>& m) {
  RequireFinite("eigenvalues", m);
  const Eigen::EigenSolver<Wide> solver(m.template cast<double>(), /*computeEigenvectors=*/false);
  Require(solver.info() == Eigen::Success, "eigenvalues: the iteration on a {}x{} matrix did not end", m.rows(),
          m.cols());
  const auto& values = solver.eigenvalues();
  std::vector<std::complex<T>> sorted(values.data(), values.data() + values.size());
  std::stable_sort(sorted.begin(), sorted.end(), [](auto x, auto y) { return std::abs(x) > std::abs(y); });
  return sorted;
}

template <typename T>
Matrix<T> Solve(const Matrix<T>& a, const Matrix<T>& b) {
  const Wide solution = Eigen::PartialPivLU<Wide>(a.template cast<double>()).solve(Wide(b.template cast<double>()));
  return solution.template cast<T>();
}

template <typename T>
std::vector<int64_t> PivotColumns(const Matrix<T>& m, int64_t rank) {
  const Eigen::ColPivHouseholderQR<Wide> qr(m.template cast<double>());
  const auto& columns = qr.colsPermutation().indices();
  return {columns.data(), columns.data() + rank};
}

#define QKV_INSTANTIATE(T)                                                    \
  template Qr<T> ThinQr(const Matrix<T>&);                                    \
  template SymmetricEigen<T> EigenSymmetric(const Matrix<T>&);                \
  template std::vector<std::complex<T>> ComputeEigenvalues(const Matrix<T>&); \
  template Matrix<T> Solve(const Matrix<T>&, const Matrix<T>&);               \
  template std::vector<int64_t> PivotColumns(const Matrix<T>&, int64_t);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::algebra::internal
