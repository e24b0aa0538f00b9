// Conversions between tensors and Eigen, and the decompositions of this folder. Included only by its sources.
#pragma once

#include <Eigen/Core>
#include <complex>
#include <limits>
#include <vector>

#include "qkv/algebra/projection.h"

namespace qkv::algebra::internal {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;
using AnyStrides = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;

/// Throws Error unless `matrix` has two axes and elements.
void RequireMatrix(const char* operation, const char* what, View<const double> matrix);

/// Throws Error unless the weight is a matrix and the bias, if any, has one element per row.
void RequireProjection(const char* operation, const ProjectionView& p);

/// Throws Error unless both are projections, to the same number of features.
void RequirePair(const char* operation, const QueryKeyView& pair);

inline Eigen::Map<const Matrix, 0, AnyStrides> AsEigen(View<const double> m) {
  using Mapped = Eigen::Map<const Matrix, 0, AnyStrides>;
  return Mapped(m.data(), m.dim(0), m.dim(1), AnyStrides(m.stride(1), m.stride(0)));
}

inline Eigen::Map<const Vector, 0, Eigen::InnerStride<>> AsVector(View<const double> v) {
  return Eigen::Map<const Vector, 0, Eigen::InnerStride<>>(v.data(), v.dim(0), Eigen::InnerStride<>(v.stride(0)));
}

/// The bias, or zeros without one.
Vector BiasOrZero(const ProjectionView& p);

Tensor<double> ToTensor(const Matrix& m);
Tensor<double> VectorToTensor(const Vector& v);

/// The two factors A [E, m], B [E, n] whose product AᵀB gives the logits: with kExact [W b] on both sides, with
/// kSoftmax [W_Q b_Q] and W_K; without biases W_Q and W_K. Every rewriting of a pair is a rewriting of AᵀB.
struct Factors {
  Matrix a, b;
  bool query_bias = false, key_bias = false;  // whether the last column is a bias

  Factors(const QueryKeyView& pair, Terms terms);

  /// The pair with factors a_ and b_, whose columns are those of a and b.
  QueryKey Pair(const Matrix& a_, const Matrix& b_) const;
};

// --- decompose.cc, svd.cc -----------------------------------------------------------------------------------------

/// Throws Error unless every element is finite: the iterations below do not terminate on NaN.
void RequireFinite(const char* operation, const Matrix& m);

/// U diag(s) Vᵀ: u [m, k], s [k] in descending order, v [n, k]. The greatest element of each column of u is positive,
/// so that the result is independent of the library if the singular values are distinct.
struct Svd {
  Matrix u;
  Vector s;
  Matrix v;
};

/// Thin: k = min(m, n).
Svd ThinSvd(const Matrix& m);

/// The SVD of AᵀB for A [E, m], B [E, n], by QR of Aᵀ and Bᵀ and the SVD of the small R_A R_Bᵀ: O((m + n) E²) without
/// an m×n matrix. k = min(E, m, n).
Svd ProductSvd(const Matrix& a, const Matrix& b);

/// Thin QR: m = Q R with q [m, k], r [k, n], k = min(m, n); the diagonal of r is not negative.
struct Qr {
  Matrix q, r;
};
Qr ThinQr(const Matrix& m);

/// The r of ThinQr, without the time that q takes.
Matrix QrTriangle(const Matrix& m);

/// Eigenvalues of a symmetric matrix in descending order, with eigenvectors.
struct SymmetricEigen {
  Vector values;
  Matrix vectors;
};
SymmetricEigen EigenSymmetric(const Matrix& m);

/// Eigenvalues in descending order of magnitude.
std::vector<std::complex<double>> ComputeEigenvalues(const Matrix& m);

/// Singular values in descending order.
Vector ComputeSingularValues(const Matrix& m);

/// A⁻¹ B, by LU with partial pivoting. A must be invertible.
Matrix Solve(const Matrix& a, const Matrix& b);

/// The first `rank` columns selected by QR with column pivoting (Businger and Golub 1965).
std::vector<int64_t> PivotColumns(const Matrix& m, int64_t rank);

/// Number of singular values above rounding: σ_i > max(m, n) · `epsilon` · σ_1.
int64_t CountRank(const Vector& s, int64_t largest_dimension, double epsilon = std::numeric_limits<double>::epsilon());

}  // namespace qkv::algebra::internal
