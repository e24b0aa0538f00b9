#include "qkv/explore/gauge_calls.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/core/rng.h"

namespace qkv::explore {
namespace {

constexpr double kGreatestLog = 1.5;  // of a column's factor, at strength 1

// Rotates columns i and j of a square matrix.
void RotateColumns(Tensor<double>& matrix, int64_t i, int64_t j, double angle) {
  const double c = std::cos(angle), s = std::sin(angle);
  for (int64_t row = 0; row < matrix.dim(0); ++row) {
    double* at = matrix.view().row(row);
    const double x = at[i], y = at[j];
    at[i] = c * x - s * y, at[j] = s * x + c * y;
  }
}

}  // namespace

GaugeMaps MakeGauge(int64_t E, double strength, uint64_t seed) {
  Require(E > 0 && strength >= 0 && strength <= 1, "gauge: expected a strength from 0 to 1, got {}", strength);
  Rng rng(seed);
  Tensor<double> rotation({E, E});
  for (int64_t i = 0; i < E; ++i) rotation[i * E + i] = 1;
  std::vector<int64_t> order(static_cast<size_t>(E));
  std::iota(order.begin(), order.end(), 0);
  // After log2 E rounds of rotated pairs each feature mixes all others.
  for (int64_t reached = 1; reached < 2 * E; reached *= 2) {
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.Next() % i]);
    for (size_t i = 0; i + 1 < order.size(); i += 2) {
      RotateColumns(rotation, order[i], order[i + 1], strength * std::numbers::pi * (2 * rng.Uniform() - 1));
    }
  }
  GaugeMaps maps{rotation.Clone(), std::move(rotation)};
  for (int64_t j = 0; j < E; ++j) {
    const double factor = std::exp(kGreatestLog * strength * (2 * rng.Uniform() - 1));
    for (int64_t i = 0; i < E; ++i) maps.query[i * E + j] *= factor, maps.key[i * E + j] /= factor;
  }
  return maps;
}

uint64_t SeedOfHead(uint64_t seed, int64_t block, int64_t head) {
  return MixSeed(MixSeed(seed, static_cast<uint64_t>(block)), static_cast<uint64_t>(head));
}

}  // namespace qkv::explore
