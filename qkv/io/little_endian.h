// Little-endian numbers in the bytes of files.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

namespace qkv::io {

/// The unsigned number at bytes [at, at + sizeof(T)), which must exist.
template <typename T>
T LittleEndian(std::span<const std::byte> bytes, size_t at) {
  static_assert(std::is_unsigned_v<T>);
  T number = 0;
  for (size_t i = 0; i < sizeof(T); ++i) number |= static_cast<T>(static_cast<T>(bytes[at + i]) << (8 * i));
  return number;
}

}  // namespace qkv::io
