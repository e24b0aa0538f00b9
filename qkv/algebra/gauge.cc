#include "qkv/algebra/gauge.h"

#include <algorithm>

#include "qkv/algebra/eigen-inl.h"

namespace qkv::algebra {

using namespace internal;

namespace {

template <typename T>
void RequireFullRank(const char* gauge, const char* what, View<const T> weight) {
  const int64_t E = weight.dim(0), D = weight.dim(1);
  const int64_t rank = CountRank(ComputeSingularValues<T>(AsEigen(weight)), std::max(E, D));
  Require(rank == E, "{} gauge: expected {} of rank E = {}, got rank {}", gauge, what, E, rank);
}

}  // namespace

template <typename T>
QueryKey<T> Regauge(const QueryKeyView<T>& pair, View<const T> transform) {
  RequirePair("regauge", pair);
  const int64_t E = pair.query.weight.dim(0);
  Require(transform.shape() == Shape({E, E}), "regauge: expected a transform of [{}, {}], got {}", E, E,
          transform.shape());
  const Matrix<T> t = AsEigen(transform);
  const int64_t rank = CountRank(ComputeSingularValues(t), E);
  Require(rank == E, "regauge: expected an invertible transform, got one of rank {} of {}", rank, E);
  QueryKey<T> result;
  result.query.weight = ToTensor(t.transpose() * AsEigen(pair.query.weight));
  result.key.weight = ToTensor(Solve<T>(t, AsEigen(pair.key.weight)));
  if (!pair.query.bias.empty()) result.query.bias = ToTensor<T>(t.transpose() * AsVector(pair.query.bias));
  if (!pair.key.bias.empty()) result.key.bias = ToTensor<T>(Vector<T>(Solve<T>(t, AsVector(pair.key.bias))));
  return result;
}

template <typename T>
Tensor<T> BalancedGauge(const QueryKeyView<T>& pair) {
  RequirePair("balanced gauge", pair);
  RequireFullRank("balanced", "W_Q", pair.query.weight);
  RequireFullRank("balanced", "W_K", pair.key.weight);
  // W_Q = R_Qᵀ Q_Qᵀ, W_K = R_Kᵀ Q_Kᵀ, R_Q R_Kᵀ = U Σ Vᵀ: Tᵀ R_Qᵀ = Σ^½ Uᵀ by T = R_Kᵀ V Σ^-½, which also gives
  // T⁻¹ R_Kᵀ = Σ^½ Vᵀ.
  const Matrix<T> r_q = ThinQr<T>(AsEigen(pair.query.weight).transpose()).r;
  const Matrix<T> r_k = ThinQr<T>(AsEigen(pair.key.weight).transpose()).r;
  const Svd<T> svd = ThinSvd<T>(r_q * r_k.transpose());
  return ToTensor(r_k.transpose() * svd.v * svd.s.cwiseSqrt().cwiseInverse().asDiagonal());
}

template <typename T>
Tensor<T> OrthonormalKeysGauge(const ProjectionView<T>& key) {
  RequireProjection("orthonormal keys gauge", key);
  RequireFullRank("orthonormal keys", "W_K", key.weight);
  return ToTensor(ThinQr<T>(AsEigen(key.weight).transpose()).r.transpose());
}

template <typename T>
IdentityBlock<T> IdentityBlockGauge(const ProjectionView<T>& key) {
  RequireProjection("identity block gauge", key);
  RequireFullRank("identity block", "W_K", key.weight);
  const int64_t E = key.weight.dim(0);
  const auto W = AsEigen(key.weight);
  IdentityBlock<T> block;
  block.columns = PivotColumns<T>(W, E);
  Matrix<T> t(E, E);
  for (int64_t i = 0; i < E; ++i) t.col(i) = W.col(block.columns[static_cast<size_t>(i)]);
  const Vector<T> s = ComputeSingularValues(t);
  block.condition = static_cast<double>(s(0)) / static_cast<double>(s(E - 1));
  block.transform = ToTensor(t);
  return block;
}

#define QKV_INSTANTIATE(T)                                             \
  template QueryKey<T> Regauge(const QueryKeyView<T>&, View<const T>); \
  template Tensor<T> BalancedGauge(const QueryKeyView<T>&);            \
  template Tensor<T> OrthonormalKeysGauge(const ProjectionView<T>&);   \
  template IdentityBlock<T> IdentityBlockGauge(const ProjectionView<T>&);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::algebra
