// Conversions between tensors and Eigen, and the decompositions of this folder. Included only by its sources.
#pragma once

#include <Eigen/Core>
#include <complex>
#include <vector>

#include "qkv/algebra/projection.h"

namespace qkv::algebra::internal {

template <typename T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
template <typename T>
using Vector = Eigen::Matrix<T, Eigen::Dynamic, 1>;
using AnyStrides = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;
template <typename T>
using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Throws Error unless `matrix` has two axes and elements.
template <typename T>
void RequireMatrix(const char* operation, const char* what, View<const T> matrix) {
  Require(matrix.rank() == 2 && matrix.size() > 0, "{}: expected {} as a matrix, got {}", operation, what,
          matrix.shape());
}

/// Throws Error unless the weight is a matrix and the bias, if any, has one element per row.
template <typename T>
void RequireProjection(const char* operation, const ProjectionView<T>& p) {
  RequireMatrix(operation, "a weight", p.weight);
  Require(p.bias.empty() || p.bias.shape() == Shape{p.weight.dim(0)}, "{}: expected a bias of {} elements, got {}",
          operation, p.weight.dim(0), p.bias.shape());
}

template <typename T>
void RequirePair(const char* operation, const QueryKeyView<T>& pair) {
  RequireProjection(operation, pair.query);
  RequireProjection(operation, pair.key);
  Require(pair.query.weight.dim(0) == pair.key.weight.dim(0),
          "{}: expected queries and keys of one width, got weights {} and {}", operation, pair.query.weight.shape(),
          pair.key.weight.shape());
}

template <typename T>
Eigen::Map<const Matrix<T>, 0, AnyStrides> AsEigen(View<const T> m) {
  return {m.data(), m.dim(0), m.dim(1), AnyStrides(m.stride(1), m.stride(0))};
}

template <typename T>
Eigen::Map<const Vector<T>, 0, Eigen::InnerStride<>> AsVector(View<const T> v) {
  return {v.data(), v.dim(0), Eigen::InnerStride<>(v.stride(0))};
}

/// The bias, or zeros without one.
template <typename T>
Vector<T> BiasOrZero(const ProjectionView<T>& p) {
  if (p.bias.empty()) return Vector<T>::Zero(p.weight.dim(0));
  return AsVector(p.bias);
}

template <typename Derived>
Tensor<typename Derived::Scalar> ToTensor(const Eigen::MatrixBase<Derived>& m) {
  using T = typename Derived::Scalar;
  auto tensor = Tensor<T>::Uninitialised({m.rows(), m.cols()});
  Eigen::Map<RowMajor<T>>(tensor.data(), m.rows(), m.cols()) = m;
  return tensor;
}

template <typename T>
Tensor<T> ToTensor(const Vector<T>& v) {
  auto tensor = Tensor<T>::Uninitialised({v.rows()});
  Eigen::Map<Vector<T>>(tensor.data(), v.rows()) = v;
  return tensor;
}

/// The two factors A [E, m], B [E, n] whose product AᵀB gives the logits: with kExact [W b] on both sides, with
/// kSoftmax [W_Q b_Q] and W_K; without biases W_Q and W_K. Every rewriting of a pair is a rewriting of AᵀB.
template <typename T>
struct Factors {
  Matrix<T> a, b;
  bool query_bias = false, key_bias = false;  // whether the last column is a bias

  Factors(const QueryKeyView<T>& pair, Terms terms)
      : query_bias(!pair.query.bias.empty() || (terms == Terms::kExact && !pair.key.bias.empty())),
        key_bias(query_bias && terms == Terms::kExact) {
    const auto side = [](const ProjectionView<T>& p, bool bias) {
      Matrix<T> factor(p.weight.dim(0), p.weight.dim(1) + bias);
      factor.leftCols(p.weight.dim(1)) = AsEigen(p.weight);
      if (bias) factor.rightCols(1) = BiasOrZero(p);
      return factor;
    };
    a = side(pair.query, query_bias), b = side(pair.key, key_bias);
  }

  /// The pair with factors a_ and b_, whose columns are those of a and b.
  QueryKey<T> Pair(const Matrix<T>& a_, const Matrix<T>& b_) const {
    const auto projection = [](const Matrix<T>& factor, bool bias) {
      Projection<T> p;
      p.weight = ToTensor(factor.leftCols(factor.cols() - bias));
      if (bias) p.bias = ToTensor<T>(factor.rightCols(1));
      return p;
    };
    return {projection(a_, query_bias), projection(b_, key_bias)};
  }
};

// --- decompose.cc, svd.cc -----------------------------------------------------------------------------------------

/// Throws Error unless every element is finite: the iterations below do not terminate on NaN.
template <typename T>
void RequireFinite(const char* operation, const Matrix<T>& m) {
  Require(m.allFinite(), "{}: expected finite elements, got NaN or infinity", operation);
}

/// U diag(s) Vᵀ: u [m, k], s [k] in descending order, v [n, k]. The greatest element of each column of u is positive,
/// so that the result is independent of the library if the singular values are distinct.
template <typename T>
struct Svd {
  Matrix<T> u;
  Vector<T> s;
  Matrix<T> v;
};

/// Thin: k = min(m, n).
template <typename T>
Svd<T> ThinSvd(const Matrix<T>& m);

/// The SVD of AᵀB for A [E, m], B [E, n], by QR of Aᵀ and Bᵀ and the SVD of the small R_A R_Bᵀ: O((m + n) E²) without
/// an m×n matrix. k = min(E, m, n).
template <typename T>
Svd<T> ProductSvd(const Matrix<T>& a, const Matrix<T>& b);

/// Thin QR: m = Q R with q [m, k], r [k, n], k = min(m, n); the diagonal of r is not negative.
template <typename T>
struct Qr {
  Matrix<T> q, r;
};
template <typename T>
Qr<T> ThinQr(const Matrix<T>& m);

/// Eigenvalues of a symmetric matrix in descending order, with eigenvectors.
template <typename T>
struct SymmetricEigen {
  Vector<T> values;
  Matrix<T> vectors;
};
template <typename T>
SymmetricEigen<T> EigenSymmetric(const Matrix<T>& m);

/// Eigenvalues in descending order of magnitude.
template <typename T>
std::vector<std::complex<T>> ComputeEigenvalues(const Matrix<T>& m);

/// Singular values in descending order.
template <typename T>
Vector<T> ComputeSingularValues(const Matrix<T>& m);

/// A⁻¹ B, by LU with partial pivoting. A must be invertible.
template <typename T>
Matrix<T> Solve(const Matrix<T>& a, const Matrix<T>& b);

/// The first `rank` columns selected by QR with column pivoting (Businger and Golub 1965).
template <typename T>
std::vector<int64_t> PivotColumns(const Matrix<T>& m, int64_t rank);

/// Number of singular values above rounding: σ_i > max(m, n) · ε · σ_1.
template <typename T>
int64_t CountRank(const Vector<T>& s, int64_t largest_dimension) {
  const T least = s.size() > 0 ? static_cast<T>(largest_dimension) * Eigen::NumTraits<T>::epsilon() * s(0) : T(0);
  return (s.array() > least).count();
}

}  // namespace qkv::algebra::internal
