#include "qkv/algebra/parts.h"

#include <algorithm>
#include <cmath>

#include "qkv/algebra/eigen-inl.h"

namespace qkv::algebra {

using namespace internal;

namespace {

template <typename T>
Matrix<T> Square(const char* operation, View<const T> matrix) {
  RequireMatrix(operation, "M", matrix);
  Require(matrix.dim(0) == matrix.dim(1), "{}: expected a square M, got {}", operation, matrix.shape());
  return AsEigen(matrix);
}

template <typename T>
void RequireAlike(const char* operation, View<const T> query, View<const T> key) {
  RequireMatrix(operation, "W_Q", query);
  Require(query.shape() == key.shape(), "{}: expected W_Q and W_K of one shape, got {} and {}", operation,
          query.shape(), key.shape());
}

// The best fit from the first `rank` allowed eigenvalues of M_s, sorted by magnitude.
template <typename T>
SymmetricFit<T> Fit(View<const T> query, View<const T> key, int64_t rank, bool allow_negative) {
  RequireAlike("symmetric fit", query, key);
  const int64_t E = query.dim(0), D = query.dim(1);
  Require(rank >= 1 && rank <= D, "symmetric fit: expected 1 <= rank <= {}, got {}", D, rank);
  // [W_Qᵀ W_Kᵀ] = Q [R_Q R_K], so that M = Q R_Q R_Kᵀ Qᵀ.
  Matrix<T> both(D, 2 * E);
  both << AsEigen(query).transpose(), AsEigen(key).transpose();
  const Qr<T> qr = ThinQr(both);
  const Matrix<T> core = qr.r.leftCols(E) * qr.r.rightCols(E).transpose();
  const SymmetricEigen<T> eigen = EigenSymmetric<T>((core + core.transpose()) / 2);

  std::vector<Eigen::Index> taken;
  for (Eigen::Index i = 0; i < eigen.values.size(); ++i) {
    if (eigen.values(i) > 0 || (allow_negative && eigen.values(i) < 0)) taken.push_back(i);
  }
  std::stable_sort(taken.begin(), taken.end(),
                   [&](auto i, auto j) { return std::abs(eigen.values(i)) > std::abs(eigen.values(j)); });
  if (std::ssize(taken) > rank) taken.resize(static_cast<size_t>(rank));

  Matrix<T> weight = Matrix<T>::Zero(rank, D);
  Vector<T> signs = Vector<T>::Zero(rank), rest = eigen.values;
  for (size_t r = 0; r < taken.size(); ++r) {
    const auto row = static_cast<Eigen::Index>(r);
    const T value = eigen.values(taken[r]);
    weight.row(row) = std::sqrt(std::abs(value)) * (qr.q * eigen.vectors.col(taken[r])).transpose();
    signs(row) = value > 0 ? T(1) : T(-1);
    rest(taken[r]) = 0;
  }
  SymmetricFit<T> fit;
  fit.weight = ToTensor(weight), fit.signs = ToTensor(signs);
  fit.residual =
      std::hypot(static_cast<double>(((core - core.transpose()) / 2).norm()), static_cast<double>(rest.norm()));
  const double norm = core.norm();
  fit.residual_relative = norm > 0 ? fit.residual / norm : 0;
  return fit;
}

}  // namespace

template <typename T>
Tensor<T> SymmetricPart(View<const T> matrix) {
  const Matrix<T> M = Square("symmetric part", matrix);
  return ToTensor((M + M.transpose()) / 2);
}

template <typename T>
Tensor<T> AntisymmetricPart(View<const T> matrix) {
  const Matrix<T> M = Square("antisymmetric part", matrix);
  return ToTensor((M - M.transpose()) / 2);
}

template <typename T>
double SymmetryScore(View<const T> matrix) {
  const Matrix<T> M = Square("symmetry score", matrix);
  const double squares = M.squaredNorm();
  return squares > 0 ? M.cwiseProduct(M.transpose()).sum() / squares : 0;
}

template <typename T>
double SymmetryScore(View<const T> query, View<const T> key) {
  RequireAlike("symmetry score", query, key);
  const auto q = AsEigen(query), k = AsEigen(key);
  const Matrix<T> kq = k * q.transpose(), qq = q * q.transpose(), kk = k * k.transpose();
  const double squares = qq.cwiseProduct(kk).sum();  // both symmetric: the trace of their product
  return squares > 0 ? kq.cwiseProduct(kq.transpose()).sum() / squares : 0;
}

template <typename T>
SymmetricFit<T> FitShared(View<const T> query, View<const T> key, int64_t rank) {
  return Fit(query, key, rank, /*allow_negative=*/false);
}

template <typename T>
SymmetricFit<T> FitSymmetric(View<const T> query, View<const T> key, int64_t rank) {
  return Fit(query, key, rank, /*allow_negative=*/true);
}

#define QKV_INSTANTIATE(T)                                                   \
  template Tensor<T> SymmetricPart(View<const T>);                           \
  template Tensor<T> AntisymmetricPart(View<const T>);                       \
  template double SymmetryScore(View<const T>);                              \
  template double SymmetryScore(View<const T>, View<const T>);               \
  template SymmetricFit<T> FitShared(View<const T>, View<const T>, int64_t); \
  template SymmetricFit<T> FitSymmetric(View<const T>, View<const T>, int64_t);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::algebra
