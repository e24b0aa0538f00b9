#include "qkv/algebra/directions.h"

#include <algorithm>

#include "qkv/algebra/eigen.h"

namespace qkv::algebra {

using namespace internal;

Directions FindDirections(View<const double> a, View<const double> b, double rounding) {
  RequireMatrix("directions", "a factor", a);
  RequireMatrix("directions", "a factor", b);
  Require(a.dim(0) == b.dim(0), "directions: expected factors of one width, got {} and {}", a.shape(), b.shape());
  const Svd svd = ProductSvd(AsEigen(a), AsEigen(b));
  Directions directions{.singular_values = {svd.s.data(), svd.s.data() + svd.s.size()},
                        .left = ToTensor(svd.u.transpose()),
                        .right = ToTensor(svd.v.transpose()),
                        .subspaces = {0}};
  const double equal = static_cast<double>(std::max(a.dim(1), b.dim(1))) * rounding * svd.s(0);
  for (int64_t i = 1; i < svd.s.size(); ++i) {
    if (svd.s(i - 1) - svd.s(i) > equal) directions.subspaces.push_back(i);
  }
  return directions;
}

}  // namespace qkv::algebra
