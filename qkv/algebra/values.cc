#include "qkv/algebra/values.h"

#include "qkv/algebra/eigen.h"

namespace qkv::algebra {

using namespace internal;

ValuesFromKeys MakeValuesFromKeys(const ProjectionView& key, const ProjectionView& value) {
  RequireProjection("values from keys", key);
  RequireProjection("values from keys", value);
  const int64_t D = key.weight.dim(1);
  Require(key.weight.dim(0) == D, "values from keys: expected a square W_K of all heads, got {}", key.weight.shape());
  Require(value.weight.dim(1) == D, "values from keys: expected W_V of {} columns, got {}", D, value.weight.shape());
  const Vector s = ComputeSingularValues(AsEigen(key.weight));
  const int64_t rank = CountRank(s, D);
  Require(rank == D, "values from keys: expected an invertible W_K, got rank {} of {}", rank, D);

  ValuesFromKeys result;
  result.condition = s(0) / s(D - 1);
  // W' W_K = W_V, transposed.
  const Matrix W = Solve(AsEigen(key.weight).transpose(), AsEigen(value.weight).transpose()).transpose();
  result.from_keys.weight = ToTensor(W);
  if (!key.bias.empty() || !value.bias.empty())
    result.from_keys.bias = VectorToTensor(BiasOrZero(value) - W * BiasOrZero(key));
  return result;
}

}  // namespace qkv::algebra
