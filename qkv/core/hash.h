// A hash that tells texts and values apart, the same on every machine and in every run. Against accidents only: whoever
// wants two that collide can make them.
#pragma once

#include <cstdint>
#include <string_view>

namespace qkv {

/// FNV-1a in 64 bits (Fowler, Noll, Vo). Texts that are added one after another count as one text: who needs to know
/// where one ended adds a byte that texts have not.
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
