#include "qkv/algebra/gauge.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "qkv/algebra/eigen.h"

namespace qkv::algebra {

using namespace internal;

namespace {

void RequireFullRank(const char* gauge, const char* what, const Matrix& weight) {
  const int64_t E = weight.rows(), D = weight.cols();
  const int64_t rank = CountRank(ComputeSingularValues(weight), std::max(E, D));
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

Tensor<double> BalancedGauge(const QueryKeyView& pair) { return BalancedGauge({&pair.query, 1}, pair.key); }

Tensor<double> BalancedGauge(std::span<const ProjectionView> queries, const ProjectionView& key) {
  int64_t inputs = 0;
  for (const ProjectionView& query : queries) {
    RequirePair("balanced gauge", {query, key});
    inputs += query.weight.dim(1);
  }
  // Only W_Q W_Qᵀ counts: several heads are one, beside each other.
  Matrix query(key.weight.dim(0), inputs);
  inputs = 0;
  for (const ProjectionView& one : queries) {
    query.middleCols(inputs, one.weight.dim(1)) = AsEigen(one.weight);
    inputs += one.weight.dim(1);
  }
  RequireFullRank("balanced", "W_Q", query);
  RequireFullRank("balanced", "W_K", AsEigen(key.weight));
  // W_Q = R_Qᵀ Q_Qᵀ, W_K = R_Kᵀ Q_Kᵀ, R_Q R_Kᵀ = U Σ Vᵀ: Tᵀ R_Qᵀ = Σ^½ Uᵀ by T = R_Kᵀ V Σ^-½, which also gives
  // T⁻¹ R_Kᵀ = Σ^½ Vᵀ.
  const Matrix r_q = QrTriangle(query.transpose());
  const Matrix r_k = QrTriangle(AsEigen(key.weight).transpose());
  const Svd svd = ThinSvd(r_q * r_k.transpose());
  return ToTensor(r_k.transpose() * svd.v * svd.s.cwiseSqrt().cwiseInverse().asDiagonal());
}

Tensor<double> OrthonormalKeysGauge(const ProjectionView& key) {
  RequireProjection("orthonormal keys gauge", key);
  RequireFullRank("orthonormal keys", "W_K", AsEigen(key.weight));
  return ToTensor(QrTriangle(AsEigen(key.weight).transpose()).transpose());
}

IdentityBlock IdentityBlockGauge(const ProjectionView& key) {
  RequireProjection("identity block gauge", key);
  RequireFullRank("identity block", "W_K", AsEigen(key.weight));
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

namespace {

constexpr std::pair<Gauge, std::string_view> kGauges[] = {{Gauge::kBalanced, "balanced"},
                                                          {Gauge::kOrthonormalKeys, "orthonormal_keys"},
                                                          {Gauge::kIdentityBlock, "identity_block"}};

}  // namespace

std::string_view Name(Gauge gauge) {
  return std::ranges::find(kGauges, gauge, &std::pair<Gauge, std::string_view>::first)->second;
}

Gauge ParseGauge(std::string_view name, std::string_view what) {
  const auto* found = std::ranges::find(kGauges, name, &std::pair<Gauge, std::string_view>::second);
  Require(found != std::end(kGauges), "{}: expected balanced, orthonormal_keys or identity_block, got \"{}\"", what,
          name);
  return found->first;
}

Tensor<double> FixGauge(Gauge gauge, std::span<const ProjectionView> queries, const ProjectionView& key) {
  switch (gauge) {
    case Gauge::kOrthonormalKeys:
      return OrthonormalKeysGauge(key);
    case Gauge::kIdentityBlock:
      return IdentityBlockGauge(key).transform;
    default:
      return BalancedGauge(queries, key);
  }
}

}  // namespace qkv::algebra
