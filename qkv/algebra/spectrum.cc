#include "qkv/algebra/spectrum.h"

#include <algorithm>
#include <cmath>

#include "qkv/algebra/eigen-inl.h"

namespace qkv::algebra {

using namespace internal;

namespace {

template <typename T>
void RequireFactors(const char* operation, View<const T> a, View<const T> b) {
  RequireMatrix(operation, "a factor", a);
  RequireMatrix(operation, "a factor", b);
  Require(a.dim(0) == b.dim(0), "{}: expected factors of one width, got {} and {}", operation, a.shape(), b.shape());
}

template <typename T>
std::vector<T> ToVector(const Vector<T>& v) {
  return {v.data(), v.data() + v.size()};
}

}  // namespace

template <typename T>
std::vector<T> SingularValues(View<const T> a, View<const T> b) {
  RequireFactors("singular values", a, b);
  const Matrix<T> r_a = ThinQr<T>(AsEigen(a).transpose()).r, r_b = ThinQr<T>(AsEigen(b).transpose()).r;
  return ToVector(ComputeSingularValues<T>(r_a * r_b.transpose()));
}

template <typename T>
std::vector<T> SingularValues(View<const T> matrix) {
  RequireMatrix("singular values", "the argument", matrix);
  return ToVector(ComputeSingularValues<T>(AsEigen(matrix)));
}

template <typename T>
std::vector<std::complex<T>> Eigenvalues(View<const T> a, View<const T> b) {
  RequireFactors("eigenvalues", a, b);
  Require(a.dim(1) == b.dim(1), "eigenvalues: expected factors of a square product, got {} and {}", a.shape(),
          b.shape());
  const bool narrow = a.dim(0) <= a.dim(1);
  return ComputeEigenvalues<T>(narrow ? Matrix<T>(AsEigen(b) * AsEigen(a).transpose())
                                      : Matrix<T>(AsEigen(a).transpose() * AsEigen(b)));
}

template <typename T>
std::vector<std::complex<T>> Eigenvalues(View<const T> matrix) {
  RequireMatrix("eigenvalues", "the argument", matrix);
  Require(matrix.dim(0) == matrix.dim(1), "eigenvalues: expected a square matrix, got {}", matrix.shape());
  return ComputeEigenvalues<T>(AsEigen(matrix));
}

template <typename T>
double EigenvalueSign(std::span<const std::complex<T>> eigenvalues) {
  double real = 0, magnitude = 0;
  for (const std::complex<T>& z : eigenvalues) real += z.real(), magnitude += std::abs(z);
  return magnitude > 0 ? real / magnitude : 0;
}

template <typename T>
double EffectiveRank(std::span<const T> singular_values) {
  double sum = 0, entropy = 0;
  for (const T s : singular_values) sum += s;
  if (sum == 0) return 0;
  for (const T s : singular_values) {
    if (s > 0) entropy -= s / sum * std::log(s / sum);
  }
  return std::exp(entropy);
}

template <typename T>
double StableRank(std::span<const T> singular_values) {
  double greatest = 0;
  for (const T s : singular_values) greatest = std::max<double>(greatest, s);
  if (greatest == 0) return 0;
  double sum = 0;
  for (const T s : singular_values) sum += (s / greatest) * (s / greatest);
  return sum;
}

template <typename T>
int64_t NumericalRank(std::span<const T> singular_values, int64_t dimension) {
  return CountRank<T>(Eigen::Map<const Vector<T>>(singular_values.data(), std::ssize(singular_values)), dimension);
}

template <typename T>
double TailNorm(std::span<const T> singular_values, int64_t rank) {
  Require(rank >= 0, "tail norm: expected a rank of at least 0, got {}", rank);
  double sum = 0;
  for (int64_t i = rank; i < std::ssize(singular_values); ++i) {
    const double s = singular_values[static_cast<size_t>(i)];
    sum += s * s;
  }
  return std::sqrt(sum);
}

#define QKV_INSTANTIATE(T)                                                         \
  template std::vector<T> SingularValues(View<const T>, View<const T>);            \
  template std::vector<T> SingularValues(View<const T>);                           \
  template std::vector<std::complex<T>> Eigenvalues(View<const T>, View<const T>); \
  template std::vector<std::complex<T>> Eigenvalues(View<const T>);                \
  template double EigenvalueSign(std::span<const std::complex<T>>);                \
  template double EffectiveRank(std::span<const T>);                               \
  template double StableRank(std::span<const T>);                                  \
  template int64_t NumericalRank(std::span<const T>, int64_t);                     \
  template double TailNorm(std::span<const T>, int64_t);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::algebra
