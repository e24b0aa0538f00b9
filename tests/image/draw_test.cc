// Pictures that are drawn: maps stretched over photos, text, sheets, and what a PNG gives back.
#include "qkv/image/draw.h"

#include <gtest/gtest.h>

#include <cmath>

#include "qkv/core/work.h"
#include "qkv/image/encode.h"
#include "qkv/image/preprocess.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/sampler.h"

namespace qkv::image {
namespace {

Image Filled(int64_t height, int64_t width, int64_t channels, uint8_t level) {
  Image image{Tensor<uint8_t>::Uninitialised({height, width, channels})};
  std::fill_n(image.pixels.data(), image.pixels.size(), level);
  return image;
}

TEST(EncodePng, GivesBackEveryByte) {
  Sampler sampler(3);
  for (int64_t channels = 1; channels <= 4; ++channels) {
    for (const auto& [height, width] : {std::pair<int64_t, int64_t>{1, 1}, {7, 13}, {64, 48}}) {
      Image image{Tensor<uint8_t>::Uninitialised({height, width, channels})};
      for (uint8_t& sample : image.pixels.span()) sample = static_cast<uint8_t>(sampler.rng().Next() >> 56);
      const std::string bytes = EncodePng(image);
      const Image again = Decode(std::as_bytes(std::span(bytes)), {}, "test");
      ASSERT_EQ(again.pixels.shape(), image.pixels.shape());
      for (int64_t i = 0; i < image.pixels.size(); ++i) ASSERT_EQ(again.pixels[i], image.pixels[i]);
    }
  }
  EXPECT_THROW(EncodePng(Image{}), Error);
  const TemporaryFolder folder;
  EXPECT_THROW(WritePng(folder / "no/such/folder.png", Filled(2, 2, 3, 0)), Error);
}

// Wide, tall and square pictures: rows, and pieces of what is compressed, ask.
TEST(EncodePng, CanBeGivenUpAnywhere) {
  Sampler sampler(4);
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>{1, 200'000}, {200'000, 1}, {500, 400}}) {
    Image image{Tensor<uint8_t>::Uninitialised({height, width, 3})};
    for (uint8_t& sample : image.pixels.span()) sample = static_cast<uint8_t>(sampler.rng().Next() >> 56);
    int64_t steps = StepsDone();
    const std::string expected = EncodePng(image);
    steps = StepsDone() - steps;
    EXPECT_GE(steps, image.pixels.size());
    EXPECT_LE(std::ssize(expected), PngBytes(height, 3 * width));
    for (const int64_t part : {0, 3, 7}) {
      const WorkBudget budget(steps * part / 8, "draw");
      EXPECT_NE(ErrorMessage([&] { EncodePng(image); }).find("takes more than"), std::string::npos) << part;
    }
    const CancelScope scope([] { return true; });
    EXPECT_THROW(EncodePng(image), Cancelled);
    EXPECT_THROW(OverlayHeat(image, Tensor<float>({2, 2}), {0, 0, 1, 1}, {}), Cancelled);
  }
}

// Bilinear gives back linear functions of the position, and the bicubic kernel quadratic ones, where no border is near.
TEST(Stretch, ReproducesPolynomials) {
  const int64_t rows = 8, columns = 12, height = 96, width = 60;
  const Rect where = {6, -10, 80, 66};                                                         // beyond the left border
  const auto x_of = [&](double x) { return (x + 0.5 - where.left) / where.width * columns; };  // in cells
  const auto y_of = [&](double y) { return (y + 0.5 - where.top) / where.height * rows; };
  for (const auto upsampling : {Upsampling::kBilinear, Upsampling::kBicubic}) {
    const bool cubic = upsampling == Upsampling::kBicubic;
    const auto f = [&](double y, double x) { return 1 + 2 * x - y + (cubic ? 0.3 * x * x - 0.2 * y * y + x * y : 0); };
    Tensor<float> grid({rows, columns});
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        *grid.view().at(r, c) = static_cast<float>(f(static_cast<double>(r) + 0.5, static_cast<double>(c) + 0.5));
      }
    }
    const Tensor<float> stretched = Stretch(grid, where, height, width, upsampling);
    int checked = 0, outside = 0;
    for (int64_t i = 0; i < height; ++i) {
      for (int64_t j = 0; j < width; ++j) {
        const double y = y_of(static_cast<double>(i)), x = x_of(static_cast<double>(j));
        const float got = *stretched.view().at(i, j);
        if (y < 0 || y >= rows || x < 0 || x >= columns) {
          EXPECT_TRUE(std::isnan(got));
          ++outside;
        } else if (y > 1.5 && y < rows - 1.5 && x > 1.5 && x < columns - 1.5) {
          EXPECT_NEAR(got, f(y, x), 1e-4);  // floats of up to about 100
          ++checked;
        }
      }
    }
    EXPECT_GT(checked, 1000);
    EXPECT_GT(outside, 100);
  }
}

TEST(Stretch, NearestKeepsCellsAndBordersGoOn) {
  Tensor<float> grid({2, 3});
  for (int64_t i = 0; i < 6; ++i) grid[i] = static_cast<float>(i);
  const Tensor<float> nearest = Stretch(grid, {0, 0, 8, 12}, 8, 12, Upsampling::kNearest);
  for (int64_t y = 0; y < 8; ++y) {
    for (int64_t x = 0; x < 12; ++x) EXPECT_EQ(*nearest.view().at(y, x), static_cast<float>(y / 4 * 3 + x / 4));
  }
  for (const auto upsampling : {Upsampling::kBilinear, Upsampling::kBicubic}) {
    const Tensor<float> smooth = Stretch(grid, {0, 0, 80, 120}, 80, 120, upsampling);
    // The bicubic kernel overshoots by a sixteenth of the step to each neighbour, 3 and 1, half a cell from the centre.
    const double overshoot = upsampling == Upsampling::kBicubic ? 4.0 / 16 + 0.01 : 1e-6;
    EXPECT_NEAR(*smooth.view().at(0, 0), 0, overshoot);
    EXPECT_NEAR(*smooth.view().at(79, 119), 5, overshoot);
  }
}

TEST(OverlayHeat, ColoursTheMapAndDimsTheRest) {
  const Image photo = Filled(10, 20, 3, 200);
  Tensor<float> grid({1, 2});
  grid[0] = 1, grid[1] = 3;
  HeatStyle style{.upsampling = Upsampling::kNearest, .opacity = 1, .low = 1, .high = 3};
  const Rect where = {2, 5, 6, 10};
  const Image solid = OverlayHeat(photo, grid, where, style);
  const auto pixel = [](const Image& image, int64_t y, int64_t x) {
    const uint8_t* p = image.pixels.view().at(y, x);
    return Colour{p[0], p[1], p[2]};
  };
  EXPECT_EQ(pixel(solid, 2, 5), ColourAt(style.colours, 0));
  EXPECT_EQ(pixel(solid, 7, 14), ColourAt(style.colours, 1));
  for (const auto& [y, x] : {std::pair<int64_t, int64_t>{1, 8}, {8, 8}, {4, 4}, {4, 15}}) {
    EXPECT_LT(pixel(solid, y, x)[0], 100);
    EXPECT_GT(pixel(solid, y, x)[0], 40);
  }
  style.opacity = 0;  // the photo in grey
  EXPECT_EQ(pixel(OverlayHeat(photo, grid, where, style), 4, 8), (Colour{200, 200, 200}));
  style.high = style.low = 2, style.opacity = 1;  // a map without a range is no division by zero
  EXPECT_EQ(pixel(OverlayHeat(photo, grid, where, style), 4, 8), ColourAt(style.colours, 0));
  // Grey photos and those with alpha get colours all the same.
  for (const int64_t channels : {1, 2, 4}) {
    EXPECT_EQ(OverlayHeat(Filled(10, 20, channels, 200), grid, where, style).channels(), 3);
  }
}

TEST(VisibleRect, UndoesResizeAndCrop) {
  Preprocess p;
  p.resize = Preprocess::Resize::kShortestEdge, p.resize_height = 100;
  p.crop = Preprocess::Crop::kTorchvision, p.crop_height = 80, p.crop_width = 60;
  const Rect seen = VisibleRect(p, 400, 600);  // resized to 100 x 150, a quarter; offsets 10 and 45
  EXPECT_DOUBLE_EQ(seen.top, 40);
  EXPECT_DOUBLE_EQ(seen.left, 180);
  EXPECT_DOUBLE_EQ(seen.height, 320);
  EXPECT_DOUBLE_EQ(seen.width, 240);
  const Rect exact =
      VisibleRect({.resize = Preprocess::Resize::kExact, .resize_height = 32, .resize_width = 32}, 7, 90);
  EXPECT_DOUBLE_EQ(exact.top, 0);
  EXPECT_DOUBLE_EQ(exact.height, 7);
  EXPECT_DOUBLE_EQ(exact.width, 90);
  // Padded all around: the map is larger than the image.
  const Rect padded =
      VisibleRect({.crop = Preprocess::Crop::kHuggingFace, .crop_height = 20, .crop_width = 30}, 10, 10);
  EXPECT_DOUBLE_EQ(padded.top, -5);
  EXPECT_DOUBLE_EQ(padded.left, -10);
  EXPECT_DOUBLE_EQ(padded.height, 20);
}

TEST(ContactSheet, PutsPicturesInTheirPlaces) {
  std::vector<Image> pictures;
  for (int i = 0; i < 6; ++i) pictures.push_back(Filled(20, 30, 3, static_cast<uint8_t>(10 * i + 50)));
  const Image plain = ContactSheet(pictures, {"", ""}, {"", "", ""}, "");
  const auto count = [](const Image& image, uint8_t level) {
    int64_t pixels = 0;
    for (int64_t i = 0; i < image.pixels.size(); i += 3) pixels += image.pixels[i] == level;
    return pixels;
  };
  for (int i = 0; i < 6; ++i) EXPECT_EQ(count(plain, static_cast<uint8_t>(10 * i + 50)), 20 * 30) << i;
  const Image named =
      ContactSheet(pictures, {"block 0", "block 1"}, {"head 0", "head 1", "head 2"}, "a title that is wider");
  EXPECT_GT(named.width(), plain.width());
  EXPECT_GT(count(named, 40), 100);  // ink
  // The edges of letters may have these levels too.
  for (int i = 0; i < 6; ++i) EXPECT_GE(count(named, static_cast<uint8_t>(10 * i + 50)), 20 * 30) << i;
  EXPECT_THROW(ContactSheet(pictures, {"", ""}, {"", ""}, ""), Error);
  pictures[1] = Filled(20, 31, 3, 0);
  EXPECT_THROW(ContactSheet(pictures, {"", ""}, {"", "", ""}, ""), Error);
}

// Pixels that are neither paper nor outside of the rectangle [top, left, height, width].
int64_t CountInk(const Image& image, int64_t top, int64_t left, int64_t height, int64_t width) {
  int64_t ink = 0;
  for (int64_t y = top; y < top + height; ++y) {
    for (int64_t x = left; x < left + width; ++x) ink += *image.pixels.view().at(y, x) != 255;
  }
  return ink;
}

TEST(DrawText, HasBothCasesAndOtherAlphabets) {
  const auto drawn = [](std::string_view text) {
    Image image = Filled(24, 40, 3, 255);
    DrawText(image, text, 2, 2, 16, {0, 0, 0});
    return std::vector<uint8_t>(image.pixels.data(), image.pixels.data() + image.pixels.size());
  };
  for (const auto& [one, other] : {std::pair("a", "A"), {"ß", "s"}, {"ж", "x"}, {"α", "a"}, {"l", "I"}, {"_", "-"}}) {
    EXPECT_NE(drawn(one), drawn(other)) << one;
  }
  EXPECT_EQ(drawn("a\xff"), drawn("a\xEF\xBF\xBD"));
  EXPECT_EQ(drawn("a\n\x1b"), drawn("a"));
}

TEST(DrawText, StaysInsideItsLineAndThePicture) {
  const std::string_view text = "Ågjpqy|";
  const int64_t width = TextWidth(text, 20), height = TextHeight(20);
  Image image = Filled(60, 200, 3, 255);
  DrawText(image, text, 10, 10, 20, {0, 0, 0});
  // Marks on capitals and bars reach a pixel further.
  const int64_t ink = CountInk(image, 9, 9, height + 2, width + 2);
  EXPECT_GT(ink, 100);
  EXPECT_EQ(CountInk(image, 0, 0, 60, 200), ink);
  Image upright = Filled(200, 60, 3, 255);
  DrawUprightText(upright, text, 190, 10, 20, {0, 0, 0});
  EXPECT_EQ(CountInk(upright, 0, 0, 200, 60), ink);
  EXPECT_EQ(CountInk(upright, 190 - width - 1, 9, width + 2, height + 2), ink);
  DrawText(image, "far beyond the border", 50, 150, 20, {0, 0, 0});
  DrawText(image, "above", -9, -8, 20, {0, 0, 0});
  EXPECT_EQ(TextWidth("", 20), 0);
}

TEST(ShortenText, KeepsBothEnds) {
  EXPECT_EQ(ShortenText("short.jpg", 12, 1000), "short.jpg");
  const std::string name = "a-very-long-name-of-a-photo-ääääääää-0001.jpg";
  for (const int64_t width : {0, 10, 40, 80, 120, 200}) {
    const std::string shorter = ShortenText(name, 12, width);
    EXPECT_LE(TextWidth(shorter, 12), std::max<int64_t>(width, TextWidth("…", 12))) << shorter;
    EXPECT_EQ(shorter.find('\xEF'), std::string::npos) << "a letter was cut: " << shorter;
  }
  const std::string shorter = ShortenText(name, 12, 120);
  EXPECT_TRUE(shorter.starts_with("a-") && shorter.ends_with("1.jpg")) << shorter;
}

TEST(EncodeWebp, GivesBackAboutThePicture) {
  Image image = Filled(40, 60, 3, 200);
  Fill(image, 0, 0, 40, 30, {20, 60, 120});
  const std::string bytes = EncodeWebp(image);
  const Image again = Decode(std::as_bytes(std::span(bytes)), {}, "test");
  ASSERT_EQ(again.pixels.shape(), image.pixels.shape());
  EXPECT_NEAR(*again.pixels.view().at(20, 10, 2), 120, 6);
  EXPECT_NEAR(*again.pixels.view().at(20, 50, 2), 200, 6);
  EXPECT_THROW(EncodeWebp(Filled(4, 4, 1, 0)), Error);
}

}  // namespace
}  // namespace qkv::image
