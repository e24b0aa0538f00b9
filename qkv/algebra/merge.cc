#include "qkv/algebra/merge.h"

#include <cmath>

#include "qkv/algebra/eigen.h"

namespace qkv::algebra {

using namespace internal;

Merged Merge(const QueryKeyView& pair, Terms terms) {
  RequirePair("merge", pair);
  const auto& [query, key] = pair;
  Merged merged;
  merged.matrix = ToTensor(AsEigen(query.weight).transpose() * AsEigen(key.weight));
  if (!query.bias.empty()) merged.key_term = VectorToTensor(AsEigen(key.weight).transpose() * AsVector(query.bias));
  if (terms == Terms::kSoftmax || key.bias.empty()) return merged;
  merged.query_term = VectorToTensor(AsEigen(query.weight).transpose() * AsVector(key.bias));
  merged.constant = BiasOrZero(query).dot(AsVector(key.bias));
  return merged;
}

MergedCosine MergeCosine(const QueryKeyView& pair) {
  return {Merge(pair, Terms::kExact), Merge({pair.query, pair.query}, Terms::kExact),
          Merge({pair.key, pair.key}, Terms::kExact)};
}

MergedOutput MergeOutput(const ProjectionView& value, View<const double> output) {
  RequireProjection("merge output", value);
  RequireMatrix("merge output", "the output's weight", output);
  Require(output.dim(1) == value.weight.dim(0), "merge output: expected an output's weight of {} columns, got {}",
          value.weight.dim(0), output.shape());
  MergedOutput merged;
  merged.matrix = ToTensor(AsEigen(output) * AsEigen(value.weight));
  if (!value.bias.empty()) merged.bias = VectorToTensor(AsEigen(output) * AsVector(value.bias));
  return merged;
}

QueryKey FoldScale(const QueryKeyView& pair, double scale) {
  RequirePair("fold scale", pair);
  Require(scale > 0, "fold scale: expected a positive scale, got {}", scale);
  const auto scaled = [&](const ProjectionView& p) {
    Projection result{ToTensor(std::sqrt(scale) * AsEigen(p.weight)), {}};
    if (!p.bias.empty()) result.bias = VectorToTensor(std::sqrt(scale) * AsVector(p.bias));
    return result;
  };
  return {scaled(pair.query), scaled(pair.key)};
}

}  // namespace qkv::algebra
