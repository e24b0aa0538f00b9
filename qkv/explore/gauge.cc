#include "qkv/explore/gauge.h"

#include <cmath>

#include "qkv/algebra/gauge.h"
#include "qkv/core/error.h"
#include "qkv/core/rng.h"

namespace qkv::explore {
namespace {

constexpr double kGreatestLog = 1.5;  // of a direction's factor, at strength 1

Tensor<double> IdentityMatrix(int64_t E) {
  Tensor<double> identity({E, E});
  for (int64_t i = 0; i < E; ++i) identity[i * E + i] = 1;
  return identity;
}

Tensor<double> TransposedCopy(View<const double> from) {
  auto to = Tensor<double>::Uninitialised({from.dim(1), from.dim(0)});
  for (int64_t i = 0; i < from.dim(0); ++i) {
    for (int64_t j = 0; j < from.dim(1); ++j) *to.view().at(j, i) = *from.at(i, j);
  }
  return to;
}

}  // namespace

GaugeMaps MapsOf(View<const double> gauge) {
  // Regauging the identity writes Tᵀ and T⁻¹.
  const int64_t E = gauge.dim(0);
  const Tensor<double> identity = IdentityMatrix(E);
  const algebra::ProjectionView side{identity.view(), {}};
  const algebra::QueryKey maps = algebra::Regauge({side, side}, gauge);
  return {TransposedCopy(maps.query.weight), TransposedCopy(maps.key.weight)};
}

Tensor<double> MakeGauge(int64_t E, double strength, uint64_t seed) {
  Require(E > 0 && strength >= 0 && strength <= 1, "gauge: expected a strength from 0 to 1, got {}", strength);
  Rng rng(seed);
  // Cayley: (I − K)⁻¹ (I + K) is a rotation if K is skew.
  Tensor<double> minus = IdentityMatrix(E), plus = IdentityMatrix(E);
  const double spread = strength * 2 / std::sqrt(static_cast<double>(E));
  for (int64_t i = 0; i < E; ++i) {
    for (int64_t j = 0; j < i; ++j) {
      const double k = spread * rng.Normal();
      plus[i * E + j] += k, plus[j * E + i] -= k;
      minus[i * E + j] -= k, minus[j * E + i] += k;
    }
  }
  const Tensor<double> inverse = TransposedCopy(MapsOf(minus).key);
  Tensor<double> gauge({E, E});
  for (int64_t j = 0; j < E; ++j) {
    const double factor = std::exp(kGreatestLog * strength * (2 * rng.Uniform() - 1));
    for (int64_t i = 0; i < E; ++i) {
      double sum = 0;
      for (int64_t m = 0; m < E; ++m) sum += inverse[i * E + m] * plus[m * E + j];
      gauge[i * E + j] = sum * factor;
    }
  }
  return gauge;
}

uint64_t SeedOfHead(uint64_t seed, int64_t block, int64_t head) {
  return MixSeed(MixSeed(seed, static_cast<uint64_t>(block)), static_cast<uint64_t>(head));
}

}  // namespace qkv::explore
