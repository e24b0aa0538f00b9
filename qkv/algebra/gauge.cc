#include "qkv/algebra/gauge.h"

#include <algorithm>

#include "qkv/algebra/eigen.h"

namespace qkv::algebra {

using namespace internal;

namespace {

void RequireFullRank(const char* gauge, const char* what, View<const double> weight) {
  const int64_t E = weight.dim(0), D = weight.dim(1);
  const int64_t rank = CountRank(ComputeSingularValues(AsEigen(weight)), std::max(E, D));
  Require(rank == E, "{} gauge: expected {} of rank E = {}, got rank {}", gauge, what, E, rank);
}

}  // namespace

QueryKey Regauge(const QueryKeyView& pair, View<const double> transform) {
  RequirePair("regauge", pair);
  const int64_t E = pair.query.weight.dim(0);
  Require(transform.shape() == Shape({E, E}), "regauge: expected a transform of [{}, {}], got {}", E, E,
          transform.shape());
  const Matrix t = AsEigen(transform);
  const int64_t rank = CountRank(ComputeSingularValues(t), E);
  Require(rank == E, "regauge: expected an invertible transform, got one of rank {} of {}", rank, E);
  QueryKey result;
  result.query.weight = ToTensor(t.transpose() * AsEigen(pair.query.weight));
  result.key.weight = ToTensor(Solve(t, AsEigen(pair.key.weight)));
  if (!pair.query.bias.empty()) result.query.bias = VectorToTensor(t.transpose() * AsVector(pair.query.bias));
  if (!pair.key.bias.empty()) result.key.bias = VectorToTensor(Solve(t, AsVector(pair.key.bias)));
  return result;
}

Tensor<double> BalancedGauge(const QueryKeyView& pair) {
  RequirePair("balanced gauge", pair);
  RequireFullRank("balanced", "W_Q", pair.query.weight);
  RequireFullRank("balanced", "W_K", pair.key.weight);
  // W_Q = R_Qᵀ Q_Qᵀ, W_K = R_Kᵀ Q_Kᵀ, R_Q R_Kᵀ = U Σ Vᵀ: Tᵀ R_Qᵀ = Σ^½ Uᵀ by T = R_Kᵀ V Σ^-½, which also gives
  // T⁻¹ R_Kᵀ = Σ^½ Vᵀ.
  const Matrix r_q = QrTriangle(AsEigen(pair.query.weight).transpose());
  const Matrix r_k = QrTriangle(AsEigen(pair.key.weight).transpose());
  const Svd svd = ThinSvd(r_q * r_k.transpose());
  return ToTensor(r_k.transpose() * svd.v * svd.s.cwiseSqrt().cwiseInverse().asDiagonal());
}

Tensor<double> OrthonormalKeysGauge(const ProjectionView& key) {
  RequireProjection("orthonormal keys gauge", key);
  RequireFullRank("orthonormal keys", "W_K", key.weight);
  return ToTensor(QrTriangle(AsEigen(key.weight).transpose()).transpose());
}

IdentityBlock IdentityBlockGauge(const ProjectionView& key) {
  RequireProjection("identity block gauge", key);
  RequireFullRank("identity block", "W_K", key.weight);
  const int64_t E = key.weight.dim(0);
  const auto W = AsEigen(key.weight);
  IdentityBlock block;
  block.columns = PivotColumns(W, E);
  Matrix t(E, E);
  for (int64_t i = 0; i < E; ++i) t.col(i) = W.col(block.columns[static_cast<size_t>(i)]);
  const Vector s = ComputeSingularValues(t);
  block.condition = s(0) / s(E - 1);
  block.transform = ToTensor(t);
  return block;
}

}  // namespace qkv::algebra
