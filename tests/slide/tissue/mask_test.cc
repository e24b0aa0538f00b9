#include "qkv/slide/tissue/mask.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/slide/tissue/support.h"

namespace qkv::slide {
namespace {

TEST(Mask, MedianOtsuClosingAndPiecesAreOpenCvs) {
  for (const io::Json& item : TissueGolden("mask")) {
    const int64_t width = item["width"], height = item["height"];
    const std::vector<uint8_t> grey = FromHex(item["grey"]), median = FromHex(item["median"]);
    const std::vector<uint8_t> blurred = MedianBlur(grey, width, height, 3);
    for (int64_t y = 3; y < height - 3; ++y) {  // OpenCV repeats the border, this clips the square
      for (int64_t x = 3; x < width - 3; ++x) {
        ASSERT_EQ(blurred[static_cast<size_t>(y * width + x)], median[static_cast<size_t>(y * width + x)])
            << x << " " << y;
      }
    }
    std::array<int64_t, 256> histogram{};
    for (const uint8_t value : grey) ++histogram[value];
    EXPECT_EQ(OtsuThreshold(histogram), item["otsu"]);
    Mask mask{width, height, FromHex(item["binary"])};
    Close(mask, 2);
    EXPECT_EQ(mask.inside, FromHex(item["closed"]));
  }
}

TEST(Tidy, RemovesSpecksAndKeepsTheRestAsOpenCvsComponents) {
  for (const io::Json& item : TissueGolden("mask")) {
    Mask mask{item["width"], item["height"], FromHex(item["binary"])};
    Mask joined = mask;
    Tidy(joined, 0, 0, true);
    if (joined.inside != mask.inside) continue;  // corners were joined, which OpenCV does not do
    Tidy(mask, 20, 0, true);
    EXPECT_EQ(mask.inside, FromHex(item["large"]));
  }
}

Mask Drawn(const std::vector<std::string>& rows) {
  Mask mask{std::ssize(rows[0]), std::ssize(rows), {}};
  for (const std::string& row : rows) {
    for (const char c : row) mask.inside.push_back(c == '#');
  }
  return mask;
}

TEST(Tidy, FillsSmallHolesAndNoBays) {
  const Mask drawn = Drawn({"########", "#.##...#", "####...#", "#####..#", "#.######"});
  Mask mask = drawn;
  Tidy(mask, 0, 2, true);
  EXPECT_EQ(mask.inside, Drawn({"########", "####...#", "####...#", "#####..#", "#.######"}).inside);
  mask = drawn;
  Tidy(mask, 0, 0, false);
  EXPECT_EQ(mask.inside, Drawn({"########", "########", "########", "########", "#.######"}).inside);
  mask = drawn;
  Tidy(mask, 100, 0, true);
  EXPECT_EQ(mask.inside, std::vector<uint8_t>(40, 0));
}

TEST(Tidy, LeavesNoPixelsThatTouchAtCornersOnly) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 50; ++trial) {
    Mask mask{23, 17, {}};
    for (int i = 0; i < 23 * 17; ++i) mask.inside.push_back(random() % 3 == 0);
    const Mask before = mask;
    Tidy(mask, 0, 0, true);
    for (int64_t y = 0; y < 17; ++y) {
      for (int64_t x = 0; x < 23; ++x) {
        EXPECT_FALSE(before.At(x, y) && !mask.At(x, y));
        EXPECT_FALSE(mask.At(x, y) == mask.At(x + 1, y + 1) && mask.At(x + 1, y) == mask.At(x, y + 1) &&
                     mask.At(x, y) != mask.At(x + 1, y) && x < 22 && y < 16);
      }
    }
  }
}

image::Image Coloured(const std::vector<std::array<uint8_t, 3>>& colours) {
  image::Image picture{Tensor<uint8_t>({1, std::ssize(colours), 3})};
  for (size_t i = 0; i < colours.size(); ++i) std::copy_n(colours[i].data(), 3, picture.pixels.data() + 3 * i);
  return picture;
}

TEST(Colourfulness, SeesStainsAndNoGreyBlackOrGreenInk) {
  const std::vector<uint8_t> values = Colourfulness(Coloured({{255, 255, 255},
                                                              {0, 0, 0},
                                                              {3, 0, 1},          // noise of black
                                                              {120, 120, 122},    // dust
                                                              {30, 160, 60},      // green ink
                                                              {240, 215, 225},    // pale eosin
                                                              {130, 90, 150},     // haematoxylin
                                                              {150, 110, 80}}));  // DAB
  EXPECT_EQ(values[0], 0);
  for (int i = 1; i < 5; ++i) EXPECT_LT(values[static_cast<size_t>(i)], 8) << i;
  EXPECT_GT(values[5], 20);
  EXPECT_GT(values[6], 60);
  EXPECT_GT(values[7], 60);
}

TEST(Colourfulness, TakesTheGlassForWhite) {
  std::vector<std::array<uint8_t, 3>> colours(50, {244, 240, 232});
  colours.push_back({230, 200, 205});
  const std::vector<uint8_t> values = Colourfulness(Coloured(colours));
  EXPECT_EQ(values[0], 0);
  EXPECT_GT(values[50], 15);
}

}  // namespace
}  // namespace qkv::slide
