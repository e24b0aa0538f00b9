// Uses libpng's simplified interface, which reports errors by return values instead of longjmp; for sixteen bits, where
// that interface would write linear light, the other one. See png.cc.
#include "qkv/image/encode.h"

#include <png.h>
#include <setjmp.h>

#include <bit>
#include <cstdio>
#include <vector>

#include "qkv/core/file.h"

namespace qkv::image {

std::string EncodePng(const Image& image) {
  Require(!image.pixels.empty() && image.pixels.size() > 0, "PNG: an image without pixels");
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  Require(image.width() <= INT32_MAX && image.height() <= INT32_MAX, "PNG: {} x {} pixels are too many", image.width(),
          image.height());
  header.width = static_cast<png_uint_32>(image.width());
  header.height = static_cast<png_uint_32>(image.height());
  constexpr png_uint_32 kFormats[] = {PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB, PNG_FORMAT_RGBA};
  header.format = kFormats[image.channels() - 1];
  std::string bytes;
  bool written = false;
  // The upper bound of the compressed size suffices for encoding in one pass.
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(header);
  bytes.resize(size);
  written = png_image_write_to_memory(&header, bytes.data(), &size, 0, image.pixels.data(), 0, nullptr) != 0;
  if (!written) Fail("PNG: {}", header.message);
  bytes.resize(size);
  return bytes;
}

namespace {

struct DeepWriter {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::string bytes;
  char message[256] = {};

  DeepWriter() = default;
  ~DeepWriter() { png_destroy_write_struct(&png, &info); }
  DeepWriter(const DeepWriter&) = delete;
  DeepWriter& operator=(const DeepWriter&) = delete;
};

[[noreturn]] void OnWriteError(png_structp png, png_const_charp message) {
  auto* writer = static_cast<DeepWriter*>(png_get_error_ptr(png));
  snprintf(writer->message, sizeof writer->message, "%s", message);
  png_longjmp(png, 1);
}

void OnWriteWarning(png_structp, png_const_charp) {}

void AppendBytes(png_structp png, png_bytep data, size_t length) {
  static_cast<DeepWriter*>(png_get_io_ptr(png))->bytes.append(reinterpret_cast<const char*>(data), length);
}

// Holds no object with a destructor: libpng jumps into it.
bool WriteDeepRows(DeepWriter& writer, png_uint_32 width, png_uint_32 height, png_bytepp rows) {
  if (setjmp(png_jmpbuf(writer.png)) != 0) return false;
  png_set_write_fn(writer.png, &writer, AppendBytes, nullptr);
  png_set_user_limits(writer.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_IHDR(writer.png, writer.info, width, height, 16, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(writer.png, writer.info);
  if constexpr (std::endian::native == std::endian::little) png_set_swap(writer.png);
  png_write_image(writer.png, rows);
  png_write_end(writer.png, writer.info);
  return true;
}

}  // namespace

std::string EncodeDeepPng(View<const uint16_t> grey) {
  Require(grey.rank() == 2 && grey.size() > 0 && grey.dense() && grey.dim(0) <= INT32_MAX && grey.dim(1) <= INT32_MAX,
          "PNG: expected grey values [height, width], got {}", grey.shape());
  std::vector<png_bytep> rows;
  // libpng does not write to the rows, though their type says so.
  for (int64_t y = 0; y < grey.dim(0); ++y) {
    rows.push_back(reinterpret_cast<png_bytep>(const_cast<uint16_t*>(grey.row(y))));
  }
  DeepWriter writer;
  writer.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &writer, OnWriteError, OnWriteWarning);
  writer.info = writer.png ? png_create_info_struct(writer.png) : nullptr;
  Require(writer.info != nullptr, "PNG: no memory");
  const bool written =
      WriteDeepRows(writer, static_cast<png_uint_32>(grey.dim(1)), static_cast<png_uint_32>(grey.dim(0)), rows.data());
  Require(written, "PNG: {}", writer.message);
  return std::move(writer.bytes);
}

void WritePng(const std::filesystem::path& path, const Image& image) { WriteFile(path, EncodePng(image)); }

}  // namespace qkv::image
