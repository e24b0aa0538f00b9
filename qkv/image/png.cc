// PNG through libpng: every bit depth, palettes, transparency, interlacing. Gamma and colour profiles are ignored, as
// in Pillow.
//
// libpng reports errors through a callback that must not return: it jumps (longjmp) into the functions below that call
// the library. These hold no objects with destructors; PngReader owns everything that must be freed.
#include <png.h>
#include <setjmp.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "qkv/image/codec.h"

namespace qkv::image {
namespace {

// Only text with EXIF or XMP is used. A compressed chunk may expand a thousandfold, so their sizes and number are
// limited.
constexpr png_alloc_size_t kMaxChunkBytes = 8 << 20;
constexpr png_uint_32 kMaxChunks = 16;
// Ignored entirely, for the same reason.
constexpr png_byte kIgnoredChunks[] = "iCCP\0sPLT";
constexpr int kIgnoredCount = 2;
// The most that deflate expands.
constexpr int64_t kMostExpansion = 1032;
constexpr int64_t kStepsPerByte = 16;

struct PngReader {
  png_structp png = nullptr;
  png_infop info = nullptr;
  const uint8_t* data = nullptr;
  size_t left = 0;
  Interrupt interrupt;
  char message[256] = {};

  PngReader() = default;
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
};

[[noreturn]] void OnError(png_structp png, png_const_charp message) {
  auto* reader = static_cast<PngReader*>(png_get_error_ptr(png));
  snprintf(reader->message, sizeof reader->message, "%s", message);
  png_longjmp(png, 1);
}

void OnWarning(png_structp, png_const_charp) {}

void ReadBytes(png_structp png, png_bytep out, size_t length) {
  auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
  if (length > reader->left) png_error(png, "the file ends too early");
  // A byte may expand to a thousand.
  if (!reader->interrupt.Spend(kStepsPerByte * static_cast<int64_t>(length))) png_error(png, "given up");
  std::memcpy(out, reader->data, length);
  reader->data += length;
  reader->left -= length;
}

/// Reads everything before the pixels. libpng allocates no rows for it.
bool ReadHeader(PngReader& reader) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  png_structp png = reader.png;
  png_set_read_fn(png, &reader, ReadBytes);
  // DecodeOptions limits the image size instead.
  png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_chunk_malloc_max(png, kMaxChunkBytes);
  png_set_chunk_cache_max(png, kMaxChunks);
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, kIgnoredChunks, kIgnoredCount);
  png_read_info(png, reader.info);
  // zlib's own checksum detects damaged pixels; browsers and Pillow check no other.
  png_set_crc_action(png, PNG_CRC_QUIET_USE, PNG_CRC_DEFAULT);
  return true;
}

/// Sets the conversions: at least 8 bits per sample, palettes to colours. libpng allocates two rows for that.
bool Start(PngReader& reader, int& passes) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  png_structp png = reader.png;
  const int depth = png_get_bit_depth(png, reader.info);
  if (png_get_color_type(png, reader.info) == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (depth < 8) png_set_expand_gray_1_2_4_to_8(png);
  if (depth == 16) {
    // libpng returns the file's byte order, high byte first.
    if constexpr (std::endian::native == std::endian::little) png_set_swap(png);
  } else if (png_get_valid(png, reader.info, PNG_INFO_tRNS)) {
    png_set_tRNS_to_alpha(png);
  }
  passes = png_set_interlace_handling(png);
  png_read_update_info(png, reader.info);
  return true;
}

bool ReadRow(PngReader& reader, png_bytep row) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  png_read_row(reader.png, row, nullptr);
  return true;
}

/// Reads the chunks behind the pixels, as far as possible.
void ReadEnd(PngReader& reader) {
  if (setjmp(png_jmpbuf(reader.png)) == 0) png_read_end(reader.png, reader.info);
}

/// Rejects chunks that are longer than the file, but for pixels, of which there may be enough: libpng would allocate
/// memory for them first. What is behind the pixels may be missing. Returns the most bytes that compressed texts take:
/// libpng expands each into a buffer and copies it.
int64_t CheckChunks(const Source& source) {
  int64_t bytes = 0;
  png_uint_32 texts = 0;
  bool has_pixels = false;
  for (size_t at = 8; source.size() - at >= 8;) {  // 8: after the signature; length and name
    const uint8_t* p = source.data() + at;
    const size_t length = size_t{p[0]} << 24 | size_t{p[1]} << 16 | size_t{p[2]} << 8 | p[3];
    has_pixels |= std::memcmp(p + 4, "IDAT", 4) == 0;
    const bool whole = source.size() - at >= length + 12;
    Require(whole || has_pixels, "{}: PNG: the file ends too early", source.where);
    if (!whole || std::memcmp(p + 4, "IEND", 4) == 0) break;
    const bool text = std::memcmp(p + 4, "zTXt", 4) == 0 || std::memcmp(p + 4, "iTXt", 4) == 0;
    if (text && texts++ < kMaxChunks)
      bytes += 2 * std::min<int64_t>(kMaxChunkBytes, kMostExpansion * static_cast<int64_t>(length));
    at += length + 12;
  }
  return bytes;
}

int Channels(const PngReader& reader) {
  const int type = png_get_color_type(reader.png, reader.info);
  const bool key = png_get_valid(reader.png, reader.info, PNG_INFO_tRNS) != 0;
  // A transparent colour of 16 bits is ignored.
  const bool alpha = (type & PNG_COLOR_MASK_ALPHA) != 0 || (key && png_get_bit_depth(reader.png, reader.info) < 16);
  return ((type & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1) + alpha;
}

/// The text of a keyword; empty if there is none.
std::string_view Text(const PngReader& reader, std::string_view keyword) {
  png_textp texts = nullptr;
  const int count = png_get_text(reader.png, reader.info, &texts, nullptr);
  for (int i = 0; i < count; ++i) {
    if (texts[i].text == nullptr || texts[i].key != keyword) continue;
    return {texts[i].text, texts[i].compression > 0 ? texts[i].itxt_length : texts[i].text_length};
  }
  return {};
}

/// ImageMagick's encoding of EXIF: a line feed, "exif", the length, and the bytes as hexadecimal digits.
void FromRawProfile(std::string_view text, std::string& bytes) {
  bytes.clear();
  for (int line = 0; line < 3; ++line) {
    const size_t end = text.find('\n');
    if (end == text.npos) return;
    text.remove_prefix(end + 1);
  }
  int digits = 0, value = 0;
  for (const char c : text) {
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0) continue;
    value = value << 4 | (c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    if (++digits % 2 == 0) bytes.push_back(static_cast<char>(value & 255));
  }
}

int ReadOrientation(const PngReader& reader, std::string& profile) {
  png_uint_32 length = 0;
  png_bytep chunk = nullptr;
  FromRawProfile(Text(reader, "Raw profile type exif"), profile);
  const bool has_chunk = png_get_eXIf_1(reader.png, reader.info, &length, &chunk) != 0;
  const auto exif = has_chunk ? std::as_bytes(std::span(chunk, length)) : std::as_bytes(std::span(profile));
  return Orientation(exif, std::as_bytes(std::span(Text(reader, "XML:com.adobe.xmp"))));
}

}  // namespace

Decoded DecodePng(const Source& source) {
  const int64_t text_bytes = CheckChunks(source);
  PngReader reader;
  reader.data = source.data();
  reader.left = source.size();
  const auto check = [&](bool ok) {
    reader.interrupt.Rethrow();
    Require(ok, "{}: PNG: {}", source.where, reader.message);
  };
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, OnError, OnWarning);
  reader.info = reader.png ? png_create_info_struct(reader.png) : nullptr;
  Require(reader.info != nullptr, "{}: PNG: no memory", source.where);
  check(ReadHeader(reader));

  const int64_t width = png_get_image_width(reader.png, reader.info);
  const int64_t height = png_get_image_height(reader.png, reader.info);
  const int channels = Channels(reader);
  const bool deep = png_get_bit_depth(reader.png, reader.info) == 16;
  const bool interlaced = png_get_interlace_type(reader.png, reader.info) != PNG_INTERLACE_NONE;
  CheckSize(source, width, height);
  // Passes of an interlaced picture complete each other's rows, so all of them are kept until the last.
  const int64_t deep_rows = deep ? (interlaced ? height : 1) : 0, row_samples = width * channels;
  // libpng holds this row and the one before it, with up to four samples a pixel while it converts.
  const int64_t row_bytes = (width + 64) * 4 * (deep ? 2 : 1);
  Admit(source, width, height, channels, deep_rows * row_samples * 2 + 2 * row_bytes + text_bytes);
  int passes = 1;
  check(Start(reader, passes));
  Require(png_get_channels(reader.png, reader.info) == channels &&
              static_cast<int64_t>(png_get_rowbytes(reader.png, reader.info)) == row_samples * (deep ? 2 : 1),
          "{}: PNG: rows of an unexpected size", source.where);

  Decoded decoded;
  decoded.image = NewImage(source, width, height, channels);
  Tensor<uint16_t>& samples = source.workspace.deep;
  if (deep) samples.Reuse({deep_rows, row_samples});
  for (int pass = 0; pass < passes; ++pass) {
    for (int64_t y = 0; y < height; ++y) {
      Spend(row_samples);
      uint8_t* out = decoded.image.pixels.data() + y * row_samples;
      uint16_t* const wide = deep ? samples.data() + (interlaced ? y * row_samples : 0) : nullptr;
      check(ReadRow(reader, deep ? reinterpret_cast<png_bytep>(wide) : out));
      if (deep && pass + 1 == passes) Narrow(source.options, wide, width, channels, out);
    }
  }
  ReadEnd(reader);
  reader.interrupt.Rethrow();
  decoded.windowed = deep;
  decoded.orientation = ReadOrientation(reader, source.workspace.exif);
  return decoded;
}

}  // namespace qkv::image
