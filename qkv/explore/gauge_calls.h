// Gauges of a head that are far from the identity: W_Q and W_K change, their product does not (algebra/gauge.h).
#pragma once

#include <cstdint>

#include "qkv/core/tensor.h"

namespace qkv::explore {

/// Right factors for rows of queries and of keys: T, which algebra::Regauge takes, and T⁻ᵀ, [E, E] each.
struct GaugeMaps {
  Tensor<double> query, key;
};

/// Depends on E, strength and seed only: T is a rotation R of all features, times a factor from exp(−1.5·strength) to
/// exp(1.5·strength) for each column, so that T⁻ᵀ is R times their inverses. Strength 0 is the identity; T changes
/// continuously with it. The condition number is at most 21, so that rounding stays that of a few products. Throws
/// Error unless 0 <= strength <= 1.
GaugeMaps MakeGauge(int64_t E, double strength, uint64_t seed);

/// The seed for one head, so that heads differ.
uint64_t SeedOfHead(uint64_t seed, int64_t block, int64_t head);

}  // namespace qkv::explore
