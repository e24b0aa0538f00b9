// A small, seedable, portable random generator: the same numbers on every machine.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace qkv {

/// A well mixed function of both arguments: number `index` of the stream of Rng(seed).
inline uint64_t MixSeed(uint64_t seed, uint64_t index) {
  uint64_t z = seed + (index + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

/// SplitMix64 (Steele, Lea, Flood 2014): one 64-bit state, every seed gives a full-period stream.
class Rng {
 public:
  explicit Rng(uint64_t seed) : seed_(seed) {}

  uint64_t Next() { return MixSeed(seed_, drawn_++); }
  /// Uniform in [0, 1), 53 bits.
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }
  /// Standard normal, by Box and Muller (1958).
  double Normal() {
    const double radius = std::sqrt(-2 * std::log(1 - Uniform()));
    return radius * std::cos(2 * std::numbers::pi * Uniform());
  }

 private:
  uint64_t seed_, drawn_ = 0;
};

}  // namespace qkv
