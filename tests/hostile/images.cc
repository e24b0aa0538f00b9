// Images of every format, by their own goldens: all compressions, depths and orders that qkv/image reads.
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "qkv/image/image.h"
#include "qkv/image/resize.h"
#include "qkv/io/safetensors.h"
#include "tests/hostile/reader.h"
#include "tests/support/files.h"

namespace qkv::hostile {
namespace {

uint32_t BigEndian(const std::string& bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

// Checksums of all chunks, as far as their lengths lead.
void RepairPng(std::string& bytes) {
  for (size_t at = 8; at + 12 <= bytes.size();) {
    const size_t length = BigEndian(bytes, at);
    if (length > bytes.size() - at - 12) return;
    const auto* const type = reinterpret_cast<const Bytef*>(bytes.data() + at + 4);
    const auto crc = static_cast<uint32_t>(::crc32(0, type, static_cast<uInt>(length + 4)));
    for (size_t i = 0; i < 4; ++i) bytes[at + 8 + length + i] = static_cast<char>(crc >> (24 - 8 * i));
    at += length + 12;
  }
}

// The goldens whose names begin so, of which `file` is found in tests/image/golden.
std::vector<Seed> ReadSeeds(const std::string& format) {
  const auto golden = io::SafeTensors::Open(SourceFolder() / "tests/image/golden/decode.safetensors");
  std::vector<Seed> seeds;
  for (const io::StoredTensor& tensor : golden.tensors()) {
    if (!tensor.name.starts_with("file/" + format)) continue;
    Seed& seed = seeds.emplace_back();
    seed.name = tensor.name;
    seed.bytes = {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()};
    if (format == "png") seed.repair = RepairPng;
  }
  return seeds;
}

// Decoded as a picture of 8 bits and through a window, in a model's channels, at another size.
void Decode(const Seed&, const std::string& bytes) {
  for (const bool window : {false, true}) {
    image::DecodeOptions options;
    options.max_pixels = 1 << 16;
    if (window) options.window = std::pair(100.0, 3000.0);
    const image::Image image = image::Decode(std::as_bytes(std::span(bytes)), options, "file");
    image::Resize(image::ToChannels(image, window ? 1 : 3), 7, 9, image::Filter::kBicubic);
  }
}

}  // namespace

std::vector<Reader> ImageReaders() {
  std::vector<Reader> readers;
  for (const auto& [name, format] : {std::pair{"Png", "png"},
                                     {"Jpeg", "jpeg"},
                                     {"WebP", "webp"},
                                     {"Gif", "gif"},
                                     {"Bmp", "bmp"},
                                     {"Tiff", "tiff"},
                                     {"Pnm", "pnm"}}) {
    readers.push_back({.name = name,
                       .open =
                           [format = std::string(format)] {
                             return Reading{ReadSeeds(format), Decode};
                           },
                       .inputs = 120});
  }
  return readers;
}

}  // namespace qkv::hostile
