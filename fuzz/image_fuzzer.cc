// Any bytes as an image file: decoded under a small limit, brought to a model's channels, resized.
#include "qkv/image/image.h"
#include "qkv/image/resize.h"

// dav1d, which decodes AVIF for libheif, loses 40 bytes over some damaged files.
extern "C" const char* __lsan_default_suppressions() { return "leak:libdav1d"; }  // NOLINT: LeakSanitizer's name

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace qkv;
  using namespace qkv::image;
  DecodeOptions options;
  options.max_pixels = 1 << 16;
  // The first bit of the last byte, which few formats look at, chooses a window.
  if (size > 0 && data[size - 1] % 2 != 0) options.window = std::pair(100.0, 3000.0);
  try {
    const Image image = Decode(std::as_bytes(std::span(data, size)), options, "input");
    Resize(image, 7, 9, Filter::kBicubic);
    Resize(ToChannels(image, 1), 40, 3, Filter::kLanczos);
  } catch (const Error&) {  // what a bad file should do
  }
  return 0;
}
