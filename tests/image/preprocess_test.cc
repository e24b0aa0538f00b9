// The steps of Apply on images small enough to follow by hand. The libraries' own pipelines, from their configurations,
// are in tests/model/config/preprocess_config_test.cc.
#include "qkv/image/preprocess.h"

#include <limits>

#include "tests/image/golden.h"

namespace qkv::image {
namespace {

/// Grey, each pixel 10 · row + column + 1.
Image Numbered(int64_t height, int64_t width) {
  Image image{Tensor<uint8_t>({height, width, 1})};
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x) *image.pixels.view().at(y, x) = static_cast<uint8_t>(10 * y + x + 1);
  return image;
}

std::vector<int> Levels(const Preprocess& preprocess, const Image& image) {
  Tensor<float> out(OutputShape(preprocess, image.height(), image.width()));
  for (float& x : out.span()) x = std::numeric_limits<float>::quiet_NaN();
  Apply(preprocess, image, out);
  return {out.span().begin(), out.span().end()};
}

Preprocess Cropped(Preprocess::Crop crop, int64_t height, int64_t width) {
  return {.channels = 1, .crop = crop, .crop_height = height, .crop_width = width, .rescale = 1};
}

TEST(Preprocess, CropsRoundAsTheirLibrariesDo) {
  const Image image = Numbered(1, 8);
  // Margins 5 and 3: torchvision rounds 2.5 to 2 and 1.5 to 2, Hugging Face cuts down to 2 and 1.
  EXPECT_EQ(Levels(Cropped(Preprocess::Crop::kTorchvision, 1, 3), image), (std::vector{3, 4, 5}));
  EXPECT_EQ(Levels(Cropped(Preprocess::Crop::kTorchvision, 1, 5), image), (std::vector{3, 4, 5, 6, 7}));
  EXPECT_EQ(Levels(Cropped(Preprocess::Crop::kHuggingFace, 1, 3), image), (std::vector{3, 4, 5}));
  EXPECT_EQ(Levels(Cropped(Preprocess::Crop::kHuggingFace, 1, 5), image), (std::vector{2, 3, 4, 5, 6}));
}

TEST(Preprocess, KeepsWhatMakesWholePatches) {
  const Preprocess whole = Cropped(Preprocess::Crop::kWhole, 1, 3);
  EXPECT_EQ(Levels(whole, Numbered(1, 8)), (std::vector{2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(Levels(whole, Numbered(2, 3)), (std::vector{1, 2, 3, 11, 12, 13}));
  EXPECT_FALSE(FixedShape(whole));
  const Rect seen = VisibleRect(whole, 1, 8);
  EXPECT_EQ(std::pair(seen.left, seen.width), std::pair(1.0, 6.0));
  EXPECT_THROW(OutputShape(whole, 4, 2), Error);
}

TEST(Preprocess, PadsRoundAsTheirLibrariesDo) {
  const Image image = Numbered(1, 2);
  EXPECT_EQ(Levels(Cropped(Preprocess::Crop::kTorchvision, 1, 5), image), (std::vector{0, 1, 2, 0, 0}));
  EXPECT_EQ(Levels(Cropped(Preprocess::Crop::kHuggingFace, 1, 5), image), (std::vector{0, 0, 1, 2, 0}));
  Preprocess filled = Cropped(Preprocess::Crop::kTorchvision, 3, 2);
  filled.fill = {9};
  EXPECT_EQ(Levels(filled, image), (std::vector{9, 9, 1, 2, 9, 9}));
}

TEST(Preprocess, SizesFollowTheImage) {
  Preprocess p{.resize = Preprocess::Resize::kShortestEdge, .resize_height = 10};
  EXPECT_EQ(OutputShape(p, 30, 40), Shape({3, 10, 13}));
  EXPECT_EQ(OutputShape(p, 40, 30), Shape({3, 13, 10}));
  EXPECT_EQ(OutputShape(p, 5, 5), Shape({3, 10, 10}));
  p = {.resize = Preprocess::Resize::kFit, .resize_height = 10, .resize_width = 20};
  EXPECT_EQ(OutputShape(p, 30, 30), Shape({3, 10, 10}));
  p.resize = Preprocess::Resize::kCover;
  EXPECT_EQ(OutputShape(p, 30, 30), Shape({3, 20, 20}));
  p.resize = Preprocess::Resize::kExact;
  EXPECT_EQ(OutputShape(p, 30, 30), Shape({3, 10, 20}));
  p.resize = Preprocess::Resize::kNone;
  EXPECT_EQ(OutputShape(p, 31, 30), Shape({3, 31, 30}));
}

TEST(Preprocess, NormalisesEachChannel) {
  const Preprocess p{.mean = {0.5f, 0.25f, 0}, .std = {0.5f, 1, 2}};
  Image image{Tensor<uint8_t>({1, 1, 3})};
  image.pixels[0] = 255, image.pixels[1] = 51, image.pixels[2] = 102;
  Tensor<float> out({3, 1, 1});
  Apply(p, image, out);
  EXPECT_EQ(out[0], 1.f);
  EXPECT_EQ(out[1], (51.f / 255.f - 0.25f));
  EXPECT_EQ(out[2], (102.f / 255.f) / 2.f);
}

TEST(Preprocess, BringsTheImageToItsChannels) {
  const Image grey = Numbered(1, 2);
  EXPECT_EQ(Levels({.channels = 3, .rescale = 1}, grey), (std::vector{1, 2, 1, 2, 1, 2}));
  Image rgba{Tensor<uint8_t>({1, 1, 4})};
  rgba.pixels[0] = rgba.pixels[1] = rgba.pixels[2] = 200;
  EXPECT_EQ(Levels({.channels = 1, .rescale = 1}, rgba), (std::vector{200}));
}

// One pixel wide and very long: the resized picture would have more pixels than memory, the crop of it is small.
TEST(Preprocess, AStripCostsNoMoreThanItsCrop) {
  const Image strip{Tensor<uint8_t>({200'000, 1, 3})};
  const Preprocess p{.resize = Preprocess::Resize::kShortestEdge,
                     .resize_height = 224,
                     .crop = Preprocess::Crop::kTorchvision,
                     .crop_height = 224,
                     .crop_width = 224};
  Tensor<float> out(OutputShape(p, strip.height(), strip.width()));
  Apply(p, strip, out);
  EXPECT_THROW(OutputShape({.resize = Preprocess::Resize::kShortestEdge, .resize_height = 2240}, 200'000, 1), Error);
}

TEST(Preprocess, RefusesWhatCannotBe) {
  const Image image = Numbered(4, 4);
  Tensor<float> out({1, 4, 4});
  EXPECT_THROW(Apply({.channels = 2}, image, out), Error);
  EXPECT_THROW(Apply({.channels = 1, .mean = {0, 0, 0}, .std = {1, 1, 1}}, image, out), Error);
  EXPECT_THROW(Apply({.channels = 1, .mean = {0}}, image, out), Error);
  EXPECT_THROW(Apply({.channels = 1, .fill = {0, 0}}, image, out), Error);
  Tensor<float> other({1, 4, 5});
  EXPECT_THROW(Apply({.channels = 1}, image, other), Error);
  // timm's "border" of a strip: its short side rounds to nothing.
  EXPECT_THROW(OutputShape({.resize = Preprocess::Resize::kFit, .resize_height = 10, .resize_width = 10}, 1, 100),
               Error);
  EXPECT_THROW(OutputShape({.resize = Preprocess::Resize::kExact, .resize_height = 0, .resize_width = 10}, 9, 9),
               Error);
  EXPECT_THROW(OutputShape({}, 0, 3), Error);
}

}  // namespace
}  // namespace qkv::image
