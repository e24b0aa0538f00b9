// Numbers from a seed, the same as seeded.py makes: recorded cases store no inputs.
#pragma once

#include <cstdint>

namespace qkv::conformance {

inline constexpr int64_t kSamples = 64;  // recorded elements of an output
enum class Purpose : uint32_t { kQ, kK, kV, kDout, kBias, kMask };

/// 32 bits for each index: the finaliser of MurmurHash3.
inline uint32_t SeededBits(uint32_t seed, int64_t index) {
  uint32_t h = static_cast<uint32_t>(index) + seed * 0x9E3779B9u;
  h ^= h >> 16, h *= 0x85EBCA6Bu;
  h ^= h >> 13, h *= 0xC2B2AE35u;
  return h ^ (h >> 16);
}

/// A multiple of 1/128 below 2: exact in float16 and in bfloat16.
inline double SeededNumber(uint32_t seed, Purpose purpose, int64_t index) {
  const uint32_t bits = SeededBits(8 * seed + static_cast<uint32_t>(purpose), index);
  return (static_cast<double>(bits % 511u) - 255) / 128;
}

inline bool SeededMask(uint32_t seed, int64_t index) {
  return SeededBits(8 * seed + static_cast<uint32_t>(Purpose::kMask), index) % 2 != 0;
}

/// The index of the recorded element `sample` of an output of `size` elements.
inline int64_t SampledIndex(uint32_t seed, int64_t sample, int64_t size) {
  return SeededBits(seed, sample) % static_cast<uint32_t>(size);
}

}  // namespace qkv::conformance
