// A grey TIFF in tiles of 16 x 16 pixels, uncompressed, with one directory a level.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace qkv {

/// sizes: height and width of each level, of at least two tiles. description: of the first level, or empty; longer than
/// four characters.
inline std::string TiffInLevels(const std::vector<std::pair<uint32_t, uint32_t>>& sizes,
                                const std::string& description = "") {
  static_assert(std::endian::native == std::endian::little);
  constexpr uint32_t kSide = 16;
  std::string bytes("II\x2a\0\0\0\0\0", 8);
  const auto put = [&](uint32_t value, int count) { bytes.append(reinterpret_cast<const char*>(&value), count); };
  size_t link = 4;  // where the place of the next directory is written
  for (const auto& [height, width] : sizes) {
    const uint32_t tiles = ((height + kSide - 1) / kSide) * ((width + kSide - 1) / kSide);
    const auto pixels = static_cast<uint32_t>(bytes.size());
    bytes.append(size_t{tiles} * kSide * kSide, '\x80');
    const auto offsets = static_cast<uint32_t>(bytes.size());
    for (uint32_t i = 0; i < tiles; ++i) put(pixels + i * kSide * kSide, 4);
    const auto counts = static_cast<uint32_t>(bytes.size());
    for (uint32_t i = 0; i < tiles; ++i) put(kSide * kSide, 4);
    const auto text = static_cast<uint32_t>(bytes.size());
    const bool described = link == 4 && !description.empty();
    if (described) bytes.append(description.c_str(), description.size() + 1);
    if (bytes.size() % 2 != 0) bytes.push_back('\0');
    const auto directory = static_cast<uint32_t>(bytes.size());
    bytes.replace(link, 4, reinterpret_cast<const char*>(&directory), 4);
    constexpr uint32_t kShort = 3, kLong = 4, kAscii = 2;
    put(described ? 11 : 10, 2);
    const auto entry = [&](uint32_t tag, uint32_t type, uint32_t count, uint32_t value) {
      put(tag, 2), put(type, 2), put(count, 4), put(value, 4);
    };
    entry(256, kLong, 1, width), entry(257, kLong, 1, height), entry(258, kShort, 1, 8);
    entry(259, kShort, 1, 1), entry(262, kShort, 1, 1);
    if (described) entry(270, kAscii, static_cast<uint32_t>(description.size() + 1), text);
    entry(277, kShort, 1, 1), entry(322, kShort, 1, kSide), entry(323, kShort, 1, kSide);
    entry(324, kLong, tiles, offsets), entry(325, kLong, tiles, counts);
    link = bytes.size();
    put(0, 4);
  }
  return bytes;
}

}  // namespace qkv
