// Colour conversions shared by the readers.
#include "qkv/image/codec.h"

namespace qkv::image {
namespace {

/// a · b / 255, rounded, as Pillow computes it for a and b up to 255.
int MulDiv255(int a, int b) {
  const int t = a * b + 128;
  return ((t >> 8) + t) >> 8;
}

}  // namespace

void CmykToRgb(const uint8_t* cmyk, uint8_t* rgb) {
  const int light = 255 - cmyk[3];
  for (int c = 0; c < 3; ++c) rgb[c] = static_cast<uint8_t>(std::clamp(light - MulDiv255(cmyk[c], light), 0, 255));
}

}  // namespace qkv::image
