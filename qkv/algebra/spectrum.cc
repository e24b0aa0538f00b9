#include "qkv/algebra/spectrum.h"

#include <algorithm>
#include <cmath>

#include "qkv/algebra/eigen.h"

namespace qkv::algebra {

using namespace internal;

namespace {

void RequireFactors(const char* operation, View<const double> a, View<const double> b) {
  RequireMatrix(operation, "a factor", a);
  RequireMatrix(operation, "a factor", b);
  Require(a.dim(0) == b.dim(0), "{}: expected factors of one width, got {} and {}", operation, a.shape(), b.shape());
}

std::vector<double> ToVector(const Vector& v) { return {v.data(), v.data() + v.size()}; }

}  // namespace

std::vector<double> SingularValues(View<const double> a, View<const double> b) {
  RequireFactors("singular values", a, b);
  const Matrix r_a = QrTriangle(AsEigen(a).transpose()), r_b = QrTriangle(AsEigen(b).transpose());
  return ToVector(ComputeSingularValues(r_a * r_b.transpose()));
}

std::vector<double> SingularValues(View<const double> matrix) {
  RequireMatrix("singular values", "the argument", matrix);
  return ToVector(ComputeSingularValues(AsEigen(matrix)));
}

std::vector<std::complex<double>> Eigenvalues(View<const double> a, View<const double> b) {
  RequireFactors("eigenvalues", a, b);
  Require(a.dim(1) == b.dim(1), "eigenvalues: expected factors of a square product, got {} and {}", a.shape(),
          b.shape());
  const bool narrow = a.dim(0) <= a.dim(1);
  return ComputeEigenvalues(narrow ? Matrix(AsEigen(b) * AsEigen(a).transpose())
                                   : Matrix(AsEigen(a).transpose() * AsEigen(b)));
}

std::vector<std::complex<double>> Eigenvalues(View<const double> matrix) {
  RequireMatrix("eigenvalues", "the argument", matrix);
  Require(matrix.dim(0) == matrix.dim(1), "eigenvalues: expected a square matrix, got {}", matrix.shape());
  return ComputeEigenvalues(AsEigen(matrix));
}

double EigenvalueSign(std::span<const std::complex<double>> eigenvalues) {
  double real = 0, magnitude = 0;
  for (const std::complex<double>& z : eigenvalues) real += z.real(), magnitude += std::abs(z);
  return magnitude > 0 ? real / magnitude : 0;
}

double EffectiveRank(std::span<const double> singular_values) {
  double sum = 0, entropy = 0;
  for (const double s : singular_values) sum += s;
  if (sum == 0) return 0;
  for (const double s : singular_values) {
    if (s > 0) entropy -= s / sum * std::log(s / sum);
  }
  return std::exp(entropy);
}

double StableRank(std::span<const double> singular_values) {
  double greatest = 0;
  for (const double s : singular_values) greatest = std::max(greatest, s);
  if (greatest == 0) return 0;
  double sum = 0;
  for (const double s : singular_values) sum += (s / greatest) * (s / greatest);
  return sum;
}

int64_t NumericalRank(std::span<const double> singular_values, int64_t dimension, double epsilon) {
  return CountRank(Eigen::Map<const Vector>(singular_values.data(), std::ssize(singular_values)), dimension, epsilon);
}

double TailNorm(std::span<const double> singular_values, int64_t rank) {
  Require(rank >= 0, "tail norm: expected a rank of at least 0, got {}", rank);
  double sum = 0;
  for (int64_t i = rank; i < std::ssize(singular_values); ++i) {
    const double s = singular_values[static_cast<size_t>(i)];
    sum += s * s;
  }
  return std::sqrt(sum);
}

}  // namespace qkv::algebra
