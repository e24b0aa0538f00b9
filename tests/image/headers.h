// Headers of image files of any size, without pixels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace qkv::image {

using HeaderMaker = std::function<std::string(int64_t width, int64_t height)>;

inline void Append(std::string& to, uint64_t value, int bytes, bool big_endian = false) {
  for (int i = 0; i < bytes; ++i) to.push_back(static_cast<char>(value >> (8 * (big_endian ? bytes - 1 - i : i))));
}

inline uint32_t PngCrc(std::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char c : bytes) {
    crc ^= static_cast<uint8_t>(c);
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ (crc % 2 != 0 ? 0xEDB88320 : 0);
  }
  return ~crc;
}

inline void AppendPngChunk(std::string& to, const std::string& name, const std::string& bytes) {
  Append(to, bytes.size(), 4, true);
  to += name + bytes;
  Append(to, PngCrc(name + bytes), 4, true);
}

inline HeaderMaker PngHeader(int bits, int colour_type, bool interlaced) {
  return [=](int64_t width, int64_t height) {
    std::string file("\x89PNG\r\n\x1A\n", 8), header;
    Append(header, static_cast<uint64_t>(width), 4, true), Append(header, static_cast<uint64_t>(height), 4, true);
    for (const int value : {bits, colour_type, 0, 0, static_cast<int>(interlaced)})
      header.push_back(static_cast<char>(value));
    AppendPngChunk(file, "IHDR", header);
    if (colour_type == 3) AppendPngChunk(file, "PLTE", std::string(6, 'x'));
    AppendPngChunk(file, "IDAT", std::string("\x78\x9C\x63\x60", 4));
    return file;
  };
}

inline HeaderMaker PnmHeader(const std::string& kind, int maximum) {
  return [=](int64_t width, int64_t height) {
    return kind + " " + std::to_string(width) + " " + std::to_string(height) + " " + std::to_string(maximum) + "\n";
  };
}

inline HeaderMaker BmpHeader(int bits, int compression) {
  return [=](int64_t width, int64_t height) {
    const uint32_t palette = bits <= 8 ? 4u << bits : 0;
    std::string file = "BM";
    for (const uint64_t value : {uint64_t{0}, uint64_t{0}, uint64_t{54} + palette, uint64_t{40}})
      Append(file, value, 4);
    Append(file, static_cast<uint64_t>(width), 4), Append(file, static_cast<uint64_t>(height), 4);
    Append(file, 1, 2), Append(file, static_cast<uint64_t>(bits), 2),
        Append(file, static_cast<uint64_t>(compression), 4);
    for (int i = 0; i < 5; ++i) Append(file, 0, 4);
    return file + std::string(palette, '\x40');
  };
}

/// Of up to 65535 × 65535.
inline HeaderMaker GifHeader(bool large_frame) {
  return [=](int64_t width, int64_t height) {
    const auto w = static_cast<uint64_t>(std::min<int64_t>(width, 65535));
    const auto h = static_cast<uint64_t>(std::min<int64_t>(height, 65535));
    std::string file = "GIF89a";
    Append(file, large_frame ? 1 : w, 2), Append(file, large_frame ? 1 : h, 2);
    file += std::string("\xF0\0\0\0\0\0\xFF\xFF\xFF,\0\0\0\0", 14);
    Append(file, large_frame ? w : 1, 2), Append(file, large_frame ? h : 1, 2);
    return file + std::string("\0\x08\x01\0\0", 5);
  };
}

/// samples: components' sampling factors, "\x22\x11\x11" is 4:2:0.
inline HeaderMaker JpegHeader(bool progressive, const std::string& sampling) {
  return [=](int64_t width, int64_t height) {
    std::string file("\xFF\xD8\xFF\xDB\0\x43\0", 7);
    file += std::string(64, '\1') + "\xFF";
    file += progressive ? "\xC2" : "\xC0";
    Append(file, 8 + 3 * sampling.size(), 2, true);
    file.push_back(8);
    Append(file, static_cast<uint64_t>(std::min<int64_t>(height, 65500)), 2, true);
    Append(file, static_cast<uint64_t>(std::min<int64_t>(width, 65500)), 2, true);
    file.push_back(static_cast<char>(sampling.size()));
    for (size_t i = 0; i < sampling.size(); ++i) {
      file.push_back(static_cast<char>(i + 1)), file.push_back(sampling[i]), file.push_back(0);
    }
    file += "\xFF\xDA";
    Append(file, 6 + 2 * sampling.size(), 2, true);
    file.push_back(static_cast<char>(sampling.size()));
    for (size_t i = 0; i < sampling.size(); ++i) file.push_back(static_cast<char>(i + 1)), file.push_back(0);
    return file + std::string(progressive ? "\0\0\0" : "\0\x3F\0", 3) + std::string(64, 'x');
  };
}

struct TiffKind {
  int bits = 8, samples = 1, photometric = 1, compression = 1;
  bool planar = false, tiled = false;
  bool small_image = false;  // the size is that of its tiles
};

inline HeaderMaker TiffHeader(const TiffKind& kind) {
  return [=](int64_t width, int64_t height) {
    struct Entry {
      int tag, type;
      uint64_t value;
    };
    const auto w = static_cast<uint64_t>(width), h = static_cast<uint64_t>(height);
    const auto number = [](int value) { return static_cast<uint64_t>(value); };
    std::vector<Entry> entries = {{256, 4, kind.small_image ? 16 : w},
                                  {257, 4, kind.small_image ? 16 : h},
                                  {258, 3, number(kind.bits)},
                                  {259, 3, number(kind.compression)},
                                  {262, 3, number(kind.photometric)},
                                  {273, 4, 8},
                                  {277, 3, number(kind.samples)},
                                  {278, 4, h},
                                  {279, 4, 16},
                                  {284, 3, kind.planar ? 2u : 1u}};
    if (kind.tiled) {
      std::erase_if(entries,
                    [](const Entry& entry) { return entry.tag == 273 || entry.tag == 278 || entry.tag == 279; });
      for (const auto& [tag, value] : {std::pair{322, w}, {323, h}, {324, uint64_t{8}}, {325, uint64_t{16}}})
        entries.push_back({tag, 4, value});
    }
    std::string file("II*\0", 4);
    Append(file, 8, 4), Append(file, entries.size(), 2);
    for (const Entry& entry : entries) {
      Append(file, static_cast<uint64_t>(entry.tag), 2), Append(file, static_cast<uint64_t>(entry.type), 2);
      Append(file, 1, 4), Append(file, entry.value, 4);
    }
    return file + std::string(64, '\0');
  };
}

/// VP8X, of up to 2²⁴ × 2²⁴, with a lossless frame of up to 16384 × 16384.
inline std::string WebpHeader(int64_t width, int64_t height) {
  std::string frame;
  const auto w = static_cast<uint64_t>(std::min<int64_t>(width, 1 << 14) - 1);
  const auto h = static_cast<uint64_t>(std::min<int64_t>(height, 1 << 14) - 1);
  frame.push_back('\x2F');
  Append(frame, w | h << 14, 4);
  frame += std::string(19, 'x');
  std::string file = "RIFF";
  Append(file, 4 + 8 + frame.size(), 4);
  file += "WEBPVP8L";
  Append(file, frame.size(), 4);
  return file + frame;
}

/// A name, and the maker of the header, for all formats but HEIF.
inline std::vector<std::pair<std::string, HeaderMaker>> HostileHeaders() {
  std::vector<std::pair<std::string, HeaderMaker>> headers;
  for (const bool interlaced : {false, true}) {
    const std::string end = interlaced ? " interlaced" : "";
    headers.emplace_back("PNG grey of 1 bit" + end, PngHeader(1, 0, interlaced));
    headers.emplace_back("PNG grey" + end, PngHeader(8, 0, interlaced));
    headers.emplace_back("PNG palette" + end, PngHeader(8, 3, interlaced));
    headers.emplace_back("PNG grey of 16 bits" + end, PngHeader(16, 0, interlaced));
    headers.emplace_back("PNG RGBA of 16 bits" + end, PngHeader(16, 6, interlaced));
  }
  headers.emplace_back("P4", PnmHeader("P4", 1));
  headers.emplace_back("P6", PnmHeader("P6", 65535));
  headers.emplace_back("P3", PnmHeader("P3", 65535));
  headers.emplace_back("BMP of runs", BmpHeader(8, 1));
  headers.emplace_back("GIF canvas", GifHeader(false));
  headers.emplace_back("GIF frame", GifHeader(true));
  for (const bool progressive : {false, true}) {
    const std::string end = progressive ? " progressive" : "";
    headers.emplace_back("JPEG grey" + end, JpegHeader(progressive, "\x11"));
    headers.emplace_back("JPEG 4:2:0" + end, JpegHeader(progressive, "\x22\x11\x11"));
    headers.emplace_back("JPEG CMYK" + end, JpegHeader(progressive, "\x11\x11\x11\x11"));
  }
  headers.emplace_back("TIFF strip", TiffHeader({}));
  headers.emplace_back("TIFF strip of 16 bits", TiffHeader({.bits = 16}));
  headers.emplace_back("TIFF planes", TiffHeader({.samples = 1, .compression = 8, .planar = true}));
  headers.emplace_back("TIFF deflate", TiffHeader({.compression = 8}));
  headers.emplace_back("TIFF LZW", TiffHeader({.compression = 5}));
  headers.emplace_back("TIFF PixarLog", TiffHeader({.compression = 32909}));
  headers.emplace_back("TIFF JPEG", TiffHeader({.compression = 7}));
  headers.emplace_back("TIFF tiles", TiffHeader({.compression = 8, .tiled = true}));
  headers.emplace_back("TIFF large tiles", TiffHeader({.compression = 8, .tiled = true, .small_image = true}));
  headers.emplace_back("WebP", WebpHeader);
  return headers;
}

}  // namespace qkv::image
