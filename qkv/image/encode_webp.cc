// Apart from encode.cc, so that what writes PNG alone needs no libwebp.
#include <webp/encode.h>

#include <algorithm>
#include <memory>

#include "qkv/core/error.h"
#include "qkv/image/encode.h"

namespace qkv::image {

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

}  // namespace qkv::image
