#include "qkv/image/background.h"

#include <gtest/gtest.h>

namespace qkv::image {
namespace {

Image Filled(int64_t channels, uint8_t value) {
  Image image{Tensor<uint8_t>({5, 7, channels})};
  for (uint8_t& sample : image.pixels.span()) sample = value;
  return image;
}

TEST(Background, IsJudgedByTheBorder) {
  Image image = Filled(1, 255);
  EXPECT_TRUE(HasBrightBorder(image));
  for (int64_t x = 0; x < 7; ++x) *image.pixels.view().at(2, x, 0) = 0;  // a stroke from edge to edge
  EXPECT_TRUE(HasBrightBorder(image));
  EXPECT_FALSE(HasBrightBorder(Filled(3, 127)));
  EXPECT_TRUE(HasBrightBorder(Filled(3, 128)));
}

TEST(Background, AlphaDoesNotCount) {
  Image image = Filled(4, 0);
  for (int64_t i = 3; i < image.pixels.size(); i += 4) image.pixels[i] = 255;
  EXPECT_FALSE(HasBrightBorder(image));
  const Image negative = Invert(image);
  EXPECT_EQ(negative.pixels[0], 255);
  EXPECT_EQ(negative.pixels[3], 255);
  EXPECT_TRUE(HasBrightBorder(negative));
}

TEST(Background, OnePixel) {
  Image image{Tensor<uint8_t>({1, 1, 1})};
  EXPECT_FALSE(HasBrightBorder(image));
  EXPECT_TRUE(HasBrightBorder(Invert(image)));
}

}  // namespace
}  // namespace qkv::image
