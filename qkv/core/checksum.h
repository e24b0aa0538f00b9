// A checksum of many bytes at the speed of memory: against accidents (a bit that flipped, a page that was never
// written), not against whoever wants two texts of one sum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace qkv {

/// The same on every machine and for every number of threads. One changed bit always changes it; any other change
/// leaves it as it is with a probability of about 2⁻⁶⁴.
uint64_t Checksum(std::span<const std::byte> bytes);

/// Adds one checksum to others: the result depends on their order.
constexpr uint64_t CombineChecksums(uint64_t sum, uint64_t next) {
  constexpr uint64_t kOdd = 0x9E3779B97F4A7C15u;  // 2⁶⁴ / the golden ratio
  const uint64_t mixed = (sum ^ next) * kOdd;
  return mixed << 29 | mixed >> 35;
}

}  // namespace qkv
