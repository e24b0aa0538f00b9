// Selects the attention weights that dropout keeps, by a hash of seed, head, query and key. The forward pass, the
// gradient and the oracle therefore draw the same mask for any division and order of the work.
#pragma once

#include <cstdint>

namespace qkv {

/// 31 random bits for a key of a row, whose 64 bits enter both rounds of a multiplicative hash (constants by Wellons,
/// "Prospecting for hash functions"). A key is dropped if they are below the threshold.
struct DropoutHash {
  static constexpr uint32_t kKeyStep = 0x9E3779B9u, kFirst = 0x7FEB352Du, kSecond = 0x846CA68Bu;

  static uint32_t Of(uint64_t row, uint32_t key) {
    uint32_t x = key * kKeyStep + static_cast<uint32_t>(row);
    x = (x ^ (x >> 16)) * kFirst;
    x = ((x ^ (x >> 15)) + static_cast<uint32_t>(row >> 32)) * kSecond;
    return (x ^ (x >> 16)) >> 1;
  }
};

/// The probability as a threshold, for 0 <= probability < 1.
inline int32_t DropoutThreshold(double probability) { return static_cast<int32_t>(probability * 0x1p31); }

}  // namespace qkv
