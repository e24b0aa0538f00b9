#include "qkv/image/background.h"

#include "qkv/image/runs.h"

namespace qkv::image {
namespace {

int64_t ColourChannels(const Image& image) { return image.channels() >= 3 ? 3 : 1; }

}  // namespace

bool HasBrightBorder(const Image& image) {
  const int64_t H = image.height(), W = image.width(), colours = ColourChannels(image);
  const View<const uint8_t> pixels = image.pixels;
  int64_t sum = 0, count = 0;
  const auto add = [&](int64_t y, int64_t x) {
    for (int64_t c = 0; c < colours; ++c) sum += *pixels.at(y, x, c);
    count += colours;
  };
  for (int64_t x = 0; x < W; ++x) add(0, x), add(H - 1, x);
  for (int64_t y = 0; y < H; ++y) add(y, 0), add(y, W - 1);
  return sum * 2 > count * 255;
}

Image Invert(const Image& image) {
  Image negative;
  Invert(image, negative);
  return negative;
}

void Invert(const Image& image, Image& negative) {
  negative.pixels.Reuse(image.pixels.shape());
  const int64_t channels = image.channels(), colours = ColourChannels(image);
  ForEachRun(negative.pixels.size(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      negative.pixels[i] = i % channels < colours ? static_cast<uint8_t>(255 - image.pixels[i]) : image.pixels[i];
  });
}

}  // namespace qkv::image
