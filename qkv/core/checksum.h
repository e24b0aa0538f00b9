// A checksum of many bytes at the speed of memory. It detects accidents (a flipped bit, a page that was never written),
// not deliberately constructed collisions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace qkv {

/// The same on every machine and for every number of threads. A change of one bit always changes the checksum; any
/// other change leaves it unchanged with a probability of about 2⁻⁶⁴.
uint64_t Checksum(std::span<const std::byte> bytes);

/// Combines one checksum with others; the result depends on their order.
constexpr uint64_t CombineChecksums(uint64_t sum, uint64_t next) {
  constexpr uint64_t kOdd = 0x9E3779B97F4A7C15u;  // 2⁶⁴ / the golden ratio
  const uint64_t mixed = (sum ^ next) * kOdd;
  return mixed << 29 | mixed >> 35;
}

}  // namespace qkv
