// Which pictures the built-in digit classifier is shown without -m: digits however large and whatever their colours,
// and no photos.
#include "qkv/app/images/digit_picture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "qkv/core/rng.h"
#include "tests/support/files.h"

namespace qkv::app {
namespace {

using image::Image;

// `value(y, x, c)` of each sample.
template <typename Value>
Image Draw(int64_t height, int64_t width, int64_t channels, Value value) {
  Image image{Tensor<uint8_t>({height, width, channels})};
  uint8_t* out = image.pixels.data();
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < channels; ++c) *out++ = static_cast<uint8_t>(value(y, x, c));
    }
  }
  return image;
}

bool InStroke(int64_t y, int64_t x, int64_t side) {
  const auto dy = static_cast<double>(y - side / 2), dx = static_cast<double>(x - side / 2);
  const double radius = std::hypot(dy, dx) / static_cast<double>(side);
  return radius > 0.2 && radius < 0.3;
}

TEST(WhyNoDigit, TakesTheShippedDigits) {
  int64_t seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SourceFolder() / "examples/digits")) {
    if (entry.path().extension() != ".png") continue;
    EXPECT_EQ(WhyNoDigit(image::DecodeFile(entry.path())), "") << entry.path();
    ++seen;
  }
  EXPECT_EQ(seen, 20);
}

TEST(WhyNoDigit, TakesDrawingsOfAnySizeAndColour) {
  constexpr int64_t kSide = 600;
  // Blue ink on yellow paper that is darker towards a side, with a camera's noise.
  Rng rng(3);
  const Image paper = Draw(kSide, kSide, 3, [&](int64_t y, int64_t x, int64_t c) {
    const double level = InStroke(y, x, kSide) ? (c == 2 ? 180 : 40) : (c == 2 ? 180 : 220);
    return level - 40.0 * static_cast<double>(x) / kSide + 10 * rng.Uniform();
  });
  EXPECT_EQ(WhyNoDigit(paper), "");
  const Image screen =
      Draw(kSide, 400, 4, [&](int64_t y, int64_t x, int64_t) { return InStroke(y, x, 400) ? 255 : 0; });
  EXPECT_EQ(WhyNoDigit(screen), "");
  // Small and grey: whatever the background.
  EXPECT_EQ(WhyNoDigit(Draw(112, 112, 1, [&](int64_t, int64_t, int64_t) { return 255 * rng.Uniform(); })), "");
}

TEST(WhyNoDigit, RefusesPhotos) {
  Rng rng(5);
  const auto noise = [&](int64_t, int64_t, int64_t) { return 255 * rng.Uniform(); };
  EXPECT_EQ(WhyNoDigit(Draw(300, 500, 3, noise)), "a colour picture of 500x300 pixels without a plain background");
  EXPECT_EQ(WhyNoDigit(Draw(300, 500, 1, noise)), "a grey picture of 500x300 pixels without a plain background");
  EXPECT_NE(WhyNoDigit(Draw(28, 28, 3, noise)), "");  // as CIFAR's
  // A bird in the sky.
  EXPECT_NE(WhyNoDigit(Draw(300, 300, 3,
                            [](int64_t y, int64_t x, int64_t c) {
                              return InStroke(y, x, 300) ? 60 : c == 2 ? 230 : 120;
                            })),
            "");
}

}  // namespace
}  // namespace qkv::app
