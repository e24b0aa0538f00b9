#include "qkv/algebra/merge.h"

#include <cmath>

#include "qkv/algebra/eigen-inl.h"

namespace qkv::algebra {

using namespace internal;

template <typename T>
Merged<T> Merge(const QueryKeyView<T>& pair, Terms terms) {
  RequirePair("merge", pair);
  const auto& [query, key] = pair;
  Merged<T> merged;
  merged.matrix = ToTensor(AsEigen(query.weight).transpose() * AsEigen(key.weight));
  if (!query.bias.empty()) merged.key_term = ToTensor<T>(AsEigen(key.weight).transpose() * AsVector(query.bias));
  if (terms == Terms::kSoftmax || key.bias.empty()) return merged;
  merged.query_term = ToTensor<T>(AsEigen(query.weight).transpose() * AsVector(key.bias));
  merged.constant = BiasOrZero(query).dot(AsVector(key.bias));
  return merged;
}

template <typename T>
MergedCosine<T> MergeCosine(const QueryKeyView<T>& pair) {
  return {Merge(pair, Terms::kExact), Merge<T>({pair.query, pair.query}, Terms::kExact),
          Merge<T>({pair.key, pair.key}, Terms::kExact)};
}

template <typename T>
MergedOutput<T> MergeOutput(const ProjectionView<T>& value, View<const T> output) {
  RequireProjection("merge output", value);
  RequireMatrix("merge output", "the output's weight", output);
  Require(output.dim(1) == value.weight.dim(0), "merge output: expected an output's weight of {} columns, got {}",
          value.weight.dim(0), output.shape());
  MergedOutput<T> merged;
  merged.matrix = ToTensor(AsEigen(output) * AsEigen(value.weight));
  if (!value.bias.empty()) merged.bias = ToTensor<T>(AsEigen(output) * AsVector(value.bias));
  return merged;
}

template <typename T>
QueryKey<T> FoldScale(const QueryKeyView<T>& pair, T scale) {
  RequirePair("fold scale", pair);
  Require(scale > 0, "fold scale: expected a positive scale, got {}", scale);
  const auto scaled = [&](const ProjectionView<T>& p) {
    Projection<T> result{ToTensor(std::sqrt(scale) * AsEigen(p.weight)), {}};
    if (!p.bias.empty()) result.bias = ToTensor<T>(std::sqrt(scale) * AsVector(p.bias));
    return result;
  };
  return {scaled(pair.query), scaled(pair.key)};
}

#define QKV_INSTANTIATE(T)                                                       \
  template Merged<T> Merge(const QueryKeyView<T>&, Terms);                       \
  template MergedCosine<T> MergeCosine(const QueryKeyView<T>&);                  \
  template MergedOutput<T> MergeOutput(const ProjectionView<T>&, View<const T>); \
  template QueryKey<T> FoldScale(const QueryKeyView<T>&, T);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::algebra
