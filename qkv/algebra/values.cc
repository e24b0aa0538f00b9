#include "qkv/algebra/values.h"

#include "qkv/algebra/eigen-inl.h"

namespace qkv::algebra {

using namespace internal;

template <typename T>
ValuesFromKeys<T> MakeValuesFromKeys(const ProjectionView<T>& key, const ProjectionView<T>& value) {
  RequireProjection("values from keys", key);
  RequireProjection("values from keys", value);
  const int64_t D = key.weight.dim(1);
  Require(key.weight.dim(0) == D, "values from keys: expected a square W_K of all heads, got {}", key.weight.shape());
  Require(value.weight.dim(1) == D, "values from keys: expected W_V of {} columns, got {}", D, value.weight.shape());
  const Vector<T> s = ComputeSingularValues<T>(AsEigen(key.weight));
  const int64_t rank = CountRank(s, D);
  Require(rank == D, "values from keys: expected an invertible W_K, got rank {} of {}", rank, D);

  ValuesFromKeys<T> result;
  result.condition = static_cast<double>(s(0)) / static_cast<double>(s(D - 1));
  // W' W_K = W_V, transposed.
  const Matrix<T> W = Solve<T>(AsEigen(key.weight).transpose(), AsEigen(value.weight).transpose()).transpose();
  result.from_keys.weight = ToTensor(W);
  if (!key.bias.empty() || !value.bias.empty())
    result.from_keys.bias = ToTensor<T>(BiasOrZero(value) - W * BiasOrZero(key));
  return result;
}

template ValuesFromKeys<float> MakeValuesFromKeys(const ProjectionView<float>&, const ProjectionView<float>&);
template ValuesFromKeys<double> MakeValuesFromKeys(const ProjectionView<double>&, const ProjectionView<double>&);

}  // namespace qkv::algebra
