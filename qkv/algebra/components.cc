#include "qkv/algebra/components.h"

#include <algorithm>
#include <cmath>

#include "qkv/algebra/eigen.h"

namespace qkv::algebra {

using namespace internal;

PrincipalComponents FindPrincipalComponents(View<const float> rows, int64_t count) {
  const int64_t R = rows.dim(0), D = rows.dim(1);
  Matrix x(R, D);
  for (int64_t r = 0; r < R; ++r) {
    for (int64_t d = 0; d < D; ++d) x(r, d) = static_cast<double>(rows.row(r)[d]);
  }
  x.rowwise() -= x.colwise().mean().eval();
  // The smaller of the two products has the same eigenvalues.
  const bool by_rows = R <= D;
  const Matrix product = by_rows ? Matrix(x * x.transpose()) : Matrix(x.transpose() * x);
  const SymmetricEigen eigen = EigenSymmetric(product);
  const double all = std::max(0.0, product.trace());
  PrincipalComponents result{Tensor<double>({count, R}), Tensor<double>({count})};
  for (int64_t c = 0; c < std::min<int64_t>(count, eigen.values.size()); ++c) {
    const double variance = eigen.values(c);
    if (variance <= 1e-12 * all) break;
    const Vector vector = eigen.vectors.col(c);
    const Vector places = by_rows ? Vector(vector * std::sqrt(variance)) : Vector(x * vector);
    const double sign = places.array().cube().sum() < 0 ? -1 : 1;
    for (int64_t r = 0; r < R; ++r) result.places[c * R + r] = sign * places(r);
    result.shares[c] = variance / all;
  }
  return result;
}

}  // namespace qkv::algebra
