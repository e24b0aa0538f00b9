// Principal components of features.
#pragma once

#include <cstdint>

#include "qkv/core/tensor.h"

namespace qkv::algebra {

/// The first principal components of rows, of descending variance.
struct PrincipalComponents {
  Tensor<double> places;  // [count, R]: where each row lies along each component, its mean subtracted
  Tensor<double> shares;  // [count]: of the rows' variance
};

/// rows: finite, [R, D]. Each component has the sign that makes the sum of its cubed places positive. Components that
/// there are not are 0, as are those whose variance is rounding. O(R D m + m³), m = min(R, D). Throws Error.
PrincipalComponents FindPrincipalComponents(View<const float> rows, int64_t count);

}  // namespace qkv::algebra
