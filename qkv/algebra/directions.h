// The directions that a head compares: the singular vectors of M = W_Qᵀ W_K. A query's component along a left vector
// meets a key's component along the right vector of the same number, with the weight σ.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "qkv/algebra/projection.h"

namespace qkv::algebra {

/// AᵀB = Σ σ_i left_i right_iᵀ.
struct Directions {
  std::vector<double> singular_values;  // [k] in descending order, k = min(E, m, n)
  Tensor<double> left, right;           // [k, m], [k, n]: rows of length 1, orthogonal to each other
  /// First numbers of the subspaces that are determined, ascending from 0. Vectors whose singular values are equal up
  /// to rounding span one: any other orthogonal basis of it serves as well, the same on both sides. Values that are
  /// zero up to rounding are one too, whose two sides have nothing to do with each other.
  std::vector<int64_t> subspaces;
};

/// For A [E, m], B [E, n]: O((m + n) E²). The greatest element of each left vector is positive. `rounding`: relative
/// error of the factors' numbers, such as float's epsilon of weights that were stored in float; values closer to each
/// other than max(m, n) · rounding · σ_1 count as equal. Throws Error if the shapes do not fit.
Directions FindDirections(View<const double> a, View<const double> b,
                          double rounding = std::numeric_limits<double>::epsilon());

}  // namespace qkv::algebra
