// Writes with libpng in pieces of rows, between which it can be given up. The library reports errors through a callback
// that must not return: it jumps (longjmp) into the functions below that call the library, which hold no objects with
// destructors.
#include "qkv/image/encode.h"

#include <png.h>
#include <setjmp.h>

#include <algorithm>
#include <bit>
#include <cstdio>

#include "qkv/core/file.h"
#include "qkv/core/work.h"
#include "qkv/image/codec.h"

namespace qkv::image {
namespace {

// Filters and zlib at its usual level.
constexpr int64_t kEncodeStepsPerByte = 8;
// Bytes written between two checks for cancellation: about a millisecond.
constexpr int64_t kBytesAtATime = int64_t{1} << 15;

struct PngWriter {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::string bytes;
  Interrupt interrupt;
  char message[256] = {};

  PngWriter() = default;
  ~PngWriter() { png_destroy_write_struct(&png, &info); }
  PngWriter(const PngWriter&) = delete;
  PngWriter& operator=(const PngWriter&) = delete;
};

[[noreturn]] void OnWriteError(png_structp png, png_const_charp message) {
  auto* writer = static_cast<PngWriter*>(png_get_error_ptr(png));
  snprintf(writer->message, sizeof writer->message, "%s", message);
  png_longjmp(png, 1);
}

void OnWriteWarning(png_structp, png_const_charp) {}

void AppendBytes(png_structp png, png_bytep data, size_t length) {
  auto* writer = static_cast<PngWriter*>(png_get_io_ptr(png));
  if (!writer->interrupt.Spend(kEncodeStepsPerByte * static_cast<int64_t>(length))) png_error(png, "given up");
  writer->bytes.append(reinterpret_cast<const char*>(data), length);
}

// The size and kind of a picture, whose rows are of `stride` bytes.
struct Layout {
  png_uint_32 height = 0, width = 0;
  int channels = 1, depth = 8;

  int64_t stride() const { return int64_t{width} * channels * (depth / 8); }
};

bool WriteHeader(PngWriter& writer, const Layout& layout) {
  if (setjmp(png_jmpbuf(writer.png)) != 0) return false;
  png_set_write_fn(writer.png, &writer, AppendBytes, nullptr);
  png_set_user_limits(writer.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  constexpr int kColours[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGBA};
  png_set_IHDR(writer.png, writer.info, layout.width, layout.height, layout.depth, kColours[layout.channels - 1],
               PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  // Sixteen bits are numbers and no light.
  if (layout.depth == 8) png_set_sRGB(writer.png, writer.info, PNG_sRGB_INTENT_PERCEPTUAL);
  png_write_info(writer.png, writer.info);
  if (layout.depth == 16 && std::endian::native == std::endian::little) png_set_swap(writer.png);
  return true;
}

bool WriteRows(PngWriter& writer, const uint8_t* first, int64_t stride, int64_t rows) {
  if (setjmp(png_jmpbuf(writer.png)) != 0) return false;
  for (int64_t y = 0; y < rows; ++y) png_write_row(writer.png, first + y * stride);
  return true;
}

bool WriteEnd(PngWriter& writer) {
  if (setjmp(png_jmpbuf(writer.png)) != 0) return false;
  png_write_end(writer.png, writer.info);
  return true;
}

std::string Encode(const Layout& layout, const uint8_t* samples) {
  PngWriter writer;
  writer.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &writer, OnWriteError, OnWriteWarning);
  writer.info = writer.png ? png_create_info_struct(writer.png) : nullptr;
  Require(writer.info != nullptr, "PNG: no memory");
  const auto check = [&](bool written) {
    writer.interrupt.Rethrow();
    Require(written, "PNG: {}", writer.message);
  };
  // Address space alone until it is written to; growing would hold the bytes twice.
  const int64_t stride = layout.stride();
  writer.bytes.reserve(static_cast<size_t>(PngBytes(layout.height, stride) - 4 * stride));
  check(WriteHeader(writer, layout));
  const int64_t together = std::max<int64_t>(1, kBytesAtATime / stride);
  for (int64_t y = 0; y < layout.height; y += together) {
    const int64_t rows = std::min(together, layout.height - y);
    Spend(kEncodeStepsPerByte * rows * stride);
    check(WriteRows(writer, samples + y * stride, stride, rows));
  }
  check(WriteEnd(writer));
  writer.bytes.shrink_to_fit();
  return std::move(writer.bytes);
}

}  // namespace

int64_t PngBytes(int64_t height, int64_t stride) {
  // zlib's bound for any bytes, with the headers of chunks of 8 KiB; and libpng's rows, to try the filters on.
  const int64_t raw = height * (stride + 1);
  return raw + (raw >> 8) + 4 * stride + kFixedBytes;
}

std::string EncodePng(const Image& image) {
  Require(!image.pixels.empty() && image.pixels.size() > 0, "PNG: an image without pixels");
  Require(image.width() <= INT32_MAX && image.height() <= INT32_MAX, "PNG: {} x {} pixels are too many", image.width(),
          image.height());
  return Encode({.height = static_cast<png_uint_32>(image.height()),
                 .width = static_cast<png_uint_32>(image.width()),
                 .channels = static_cast<int>(image.channels())},
                image.pixels.data());
}

std::string EncodeDeepPng(View<const uint16_t> grey) {
  Require(grey.rank() == 2 && grey.size() > 0 && grey.dense() && grey.dim(0) <= INT32_MAX && grey.dim(1) <= INT32_MAX,
          "PNG: expected grey values [height, width], got {}", grey.shape());
  return Encode({.height = static_cast<png_uint_32>(grey.dim(0)),
                 .width = static_cast<png_uint_32>(grey.dim(1)),
                 .channels = 1,
                 .depth = 16},
                reinterpret_cast<const uint8_t*>(grey.data()));
}

void WritePng(const std::filesystem::path& path, const Image& image) { WriteFile(path, EncodePng(image)); }

}  // namespace qkv::image
