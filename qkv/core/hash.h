// A hash of texts and values, the same on every machine and in every run. Not collision-resistant against deliberate
// construction.
#pragma once

#include <cstdint>
#include <string_view>

namespace qkv {

/// FNV-1a in 64 bits (Fowler, Noll, Vo). Texts added one after another hash like their concatenation; to mark
/// boundaries, add a byte that does not occur in the texts.
class Fnv1a {
 public:
  Fnv1a& AddByte(uint8_t byte) {
    value_ = (value_ ^ byte) * 0x100000001B3u;
    return *this;
  }
  Fnv1a& Add(std::string_view text) {
    for (const char c : text) AddByte(static_cast<uint8_t>(c));
    return *this;
  }

  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xCBF29CE484222325u;
};

}  // namespace qkv
