// Uses libpng's simplified interface, which reports errors by return values instead of longjmp.
#include "qkv/image/encode.h"

#include <png.h>
#include <webp/encode.h>

#include <memory>

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

std::string EncodeWebp(const Image& image, float quality) {
  Require(
      !image.pixels.empty() && image.channels() == 3 && std::max(image.height(), image.width()) <= WEBP_MAX_DIMENSION,
      "WebP: expected an RGB image of at most {} pixels a side", WEBP_MAX_DIMENSION);
  uint8_t* bytes = nullptr;
  const auto height = static_cast<int>(image.height()), width = static_cast<int>(image.width());
  const size_t size = WebPEncodeRGB(image.pixels.data(), width, height, 3 * width, quality, &bytes);
  const std::unique_ptr<uint8_t, void (*)(void*)> owner(bytes, WebPFree);
  Require(size > 0, "WebP: no memory for {} x {} pixels", width, height);
  return {reinterpret_cast<const char*>(bytes), size};
}

void WritePng(const std::filesystem::path& path, const Image& image) { WriteFile(path, EncodePng(image)); }

}  // namespace qkv::image
