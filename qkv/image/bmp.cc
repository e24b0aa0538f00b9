// BMP reader, written here: no library in Debian reads BMP alone, and the desktop toolkits that do are a hundred times
// larger. Supports what Pillow does: 1, 4, 8, 16, 24 and 32 bits, run-length encoding, bit masks, OS/2's old header.
#include <array>
#include <cstring>
#include <vector>

#include "qkv/core/work.h"
#include "qkv/image/byte_reader.h"
#include "qkv/image/codec.h"

namespace qkv::image {
namespace {

enum Compression : uint32_t { kRaw = 0, kRle8 = 1, kRle4 = 2, kBitFields = 3 };
constexpr size_t kFileHeaderBytes = 14;
constexpr uint32_t kOs2HeaderBytes = 12, kInfoHeaderBytes = 40;

struct Header {
  int64_t width = 0, height = 0;
  bool top_down = false;
  uint32_t bits = 0, compression = kRaw, colours = 0, palette_entry_bytes = 4;
  std::array<uint32_t, 4> masks{};  // red, green, blue, alpha
  size_t pixels_at = 0;
};

/// Leaves the reader at the palette.
Header ReadHeader(ByteReader& reader, const Source& source) {
  Header header;
  reader.Seek(10);
  header.pixels_at = reader.U32();
  const uint32_t size = reader.U32();
  if (size == kOs2HeaderBytes) {
    header.width = reader.U16();
    header.height = reader.U16();
    reader.U16();  // planes
    header.bits = reader.U16();
    header.palette_entry_bytes = 3;
  } else {
    Require(size == 40 || size == 52 || size == 56 || size == 64 || size == 108 || size == 124,
            "{}: BMP: a header of {} bytes is not known", source.where, size);
    header.width = static_cast<int32_t>(reader.U32());
    const int64_t height = static_cast<int32_t>(reader.U32());
    header.top_down = height < 0;
    header.height = header.top_down ? -height : height;
    reader.U16();  // planes
    header.bits = reader.U16();
    header.compression = reader.U32();
    reader.Take(12);  // image size in bytes, pixels per metre
    header.colours = reader.U32();
    reader.U32();  // important colours
    // With the shortest header, the masks (without alpha's) follow it, at the same offset.
    const int masks = size >= 56 ? 4 : 3;
    if (header.compression == kBitFields)
      for (int i = 0; i < masks; ++i) header.masks[i] = reader.U32();
    if (size > kInfoHeaderBytes) reader.Seek(kFileHeaderBytes + size);
  }
  if (header.colours == 0 && header.bits <= 8) header.colours = 1u << header.bits;
  return header;
}

/// 256 RGB colours; those not in the file are black.
std::array<uint8_t, 256 * 3> ReadPalette(ByteReader& reader, const Header& header) {
  std::array<uint8_t, 256 * 3> palette{};
  for (uint32_t i = 0; i < std::min(header.colours, 256u); ++i) {
    const uint8_t* bgr = reader.Take(header.palette_entry_bytes);
    for (int c = 0; c < 3; ++c) palette[3 * i + c] = bgr[2 - c];
  }
  return palette;
}

/// Decodes runs of palette indices into out: [height, width], the file's first row first. Skipped pixels are index 0.
void ReadRuns(ByteReader& reader, const Header& header, uint8_t* out) {
  const bool four_bits = header.compression == kRle4;
  const size_t width = static_cast<size_t>(header.width), total = width * static_cast<size_t>(header.height);
  // x may stay at the end of a row while surplus pixels follow, so it is kept beside `at`.
  size_t at = 0, x = 0;
  const auto nibble = [](uint8_t byte, size_t i) { return static_cast<uint8_t>(i % 2 == 0 ? byte >> 4 : byte & 15); };
  while (at < total) {
    const uint8_t count = reader.U8(), value = reader.U8();
    Spend(count + value);
    if (count > 0) {
      const size_t run = std::min({size_t{count}, width - std::min(x, width), total - at});
      for (size_t i = 0; i < run; ++i) out[at + i] = four_bits ? nibble(value, i) : value;
      at += run;
      x += run;
    } else if (value == 0) {  // end of the row
      at = (at + width - 1) / width * width;
      x = 0;
    } else if (value == 1) {  // end of the picture
      return;
    } else if (value == 2) {  // a jump
      const uint8_t right = reader.U8(), up = reader.U8();
      at += right + up * width;
      x = at % width;
    } else {  // single pixels, padded to whole 16-bit words
      const size_t bytes = four_bits ? (value + 1u) / 2 : value;
      const uint8_t* pixels = reader.Take(bytes);
      for (size_t i = 0; i < value && at < total; ++i) out[at++] = four_bits ? nibble(pixels[i / 2], i) : pixels[i];
      x += value;
      if (bytes % 2 != 0 && at < total) reader.U8();
    }
  }
}

/// The byte that a byte-wide mask selects; −1 for an empty mask.
int MaskByte(uint32_t mask, const Source& source) {
  for (int i = 0; i < 4; ++i)
    if (mask == 0xFFu << (8 * i)) return i;
  Require(mask == 0, "{}: BMP: the colour mask {:#x} is not supported", source.where, mask);
  return -1;
}

/// Unpacks a row of palette indices of 1, 4 or 8 bits.
void UnpackIndices(const uint8_t* in, int64_t width, uint32_t bits, uint8_t* out) {
  for (int64_t x = 0; x < width; ++x) {
    const int64_t bit = x * bits;
    out[x] = static_cast<uint8_t>(in[bit / 8] >> (8 - bits - bit % 8) & ((1u << bits) - 1));
  }
}

void UnpackSixteen(const uint8_t* in, int64_t width, int green_bits, uint8_t* out) {
  const int green_max = (1 << green_bits) - 1;
  for (int64_t x = 0; x < width; ++x, out += 3) {
    const int pixel = in[2 * x] | in[2 * x + 1] << 8;
    out[0] = static_cast<uint8_t>((pixel >> (5 + green_bits) & 31) * 255 / 31);
    out[1] = static_cast<uint8_t>((pixel >> 5 & green_max) * 255 / green_max);
    out[2] = static_cast<uint8_t>((pixel & 31) * 255 / 31);
  }
}

Image ReadIndexed(ByteReader& reader, const Header& header, const Source& source) {
  const auto palette = ReadPalette(reader, header);
  reader.Seek(header.pixels_at);
  const bool runs = header.compression != kRaw;
  const size_t width = static_cast<size_t>(header.width);
  const size_t row_bytes = (width * header.bits + 7) / 8, stride = (row_bytes + 3) / 4 * 4;
  if (!runs) reader.Expect(row_bytes * static_cast<size_t>(header.height));
  Admit(source, header.width, header.height, 3, header.width * (runs ? header.height : 1));
  Image image = NewImage(source, header.width, header.height, 3);
  std::vector<uint8_t>& indices = source.workspace.row;
  indices.assign(runs ? width * static_cast<size_t>(header.height) : width, 0);
  if (runs) ReadRuns(reader, header, indices.data());
  for (int64_t y = 0; y < header.height; ++y) {
    const uint8_t* index = indices.data() + (runs ? y * header.width : 0);
    if (!runs) {
      UnpackIndices(reader.Take(row_bytes), header.width, header.bits, indices.data());
      reader.Take(std::min(stride - row_bytes, reader.left()));  // the last row's padding may be absent
    }
    uint8_t* out = image.pixels.data() + (header.top_down ? y : header.height - 1 - y) * header.width * 3;
    ForEachRun(header.width, [&](int64_t begin, int64_t end) {
      for (int64_t x = begin; x < end; ++x) std::memcpy(out + 3 * x, &palette[size_t{3} * index[x]], 3);
    });
  }
  return image;
}

Image ReadColours(ByteReader& reader, Header header, const Source& source) {
  const bool masked = header.compression == kBitFields;
  if (!masked || (header.bits == 32 && header.masks == std::array<uint32_t, 4>{})) {
    header.masks = header.bits == 16 ? std::array<uint32_t, 4>{0x7C00, 0x3E0, 0x1F, 0}
                                     : std::array<uint32_t, 4>{0xFF0000, 0xFF00, 0xFF, masked ? 0xFF000000 : 0};
  }
  int green_bits = 0;
  std::array<int, 4> byte{};
  if (header.bits == 16) {
    const auto& m = header.masks;
    green_bits = m[0] == 0xF800 && m[1] == 0x7E0 ? 6 : 5;
    Require(m[2] == 0x1F && (green_bits == 6 || (m[0] == 0x7C00 && m[1] == 0x3E0)),
            "{}: BMP: the colour masks {:#x}, {:#x}, {:#x} are not supported", source.where, m[0], m[1], m[2]);
  } else {
    for (int c = 0; c < 4; ++c) byte[c] = MaskByte(header.masks[c], source);
    const int last = header.bits == 32 ? 3 : 2;
    for (int c = 0; c < 4; ++c)
      Require(byte[c] <= last && (c == 3 || byte[c] >= 0), "{}: BMP: the colour masks do not fit {} bits", source.where,
              header.bits);
  }
  const int channels = header.bits == 32 && byte[3] >= 0 ? 4 : 3;
  reader.Seek(header.pixels_at);
  const int64_t pixel_bytes = header.bits / 8;
  const size_t row_bytes = static_cast<size_t>(header.width * pixel_bytes), stride = (row_bytes + 3) / 4 * 4;
  reader.Expect(row_bytes * static_cast<size_t>(header.height));
  Admit(source, header.width, header.height, channels, 0);
  Image image = NewImage(source, header.width, header.height, channels);
  for (int64_t y = 0; y < header.height; ++y) {
    const uint8_t* in = reader.Take(row_bytes);
    reader.Take(std::min(stride - row_bytes, reader.left()));  // the last row's padding may be absent
    uint8_t* out = image.pixels.data() + (header.top_down ? y : header.height - 1 - y) * header.width * channels;
    ForEachRun(header.width, [&](int64_t begin, int64_t end) {
      if (header.bits == 16) return UnpackSixteen(in + 2 * begin, end - begin, green_bits, out + 3 * begin);
      for (int64_t x = begin; x < end; ++x)
        for (int c = 0; c < channels; ++c) out[x * channels + c] = in[x * pixel_bytes + byte[c]];
    });
  }
  return image;
}

}  // namespace

Decoded DecodeBmp(const Source& source) {
  ByteReader reader(source);
  const Header header = ReadHeader(reader, source);
  CheckSize(source, header.width, header.height);
  const uint32_t bits = header.bits;
  const bool indexed = bits == 1 || bits == 4 || bits == 8;
  Require(indexed || bits == 16 || bits == 24 || bits == 32, "{}: BMP: {} bits a pixel", source.where, bits);
  const bool known = header.compression == kRaw || (header.compression == kRle8 && bits == 8) ||
                     (header.compression == kRle4 && bits == 4) || (header.compression == kBitFields && !indexed);
  Require(known, "{}: BMP: compression {} of {} bits a pixel", source.where, header.compression, bits);
  return {indexed ? ReadIndexed(reader, header, source) : ReadColours(reader, header, source)};
}

}  // namespace qkv::image
