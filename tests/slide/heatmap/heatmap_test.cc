// Heatmaps as pictures: colours where tiles are, the slide elsewhere, a legend below.
#include "qkv/slide/heatmap/heatmap.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/slide/heatmap/made_slide.h"

namespace qkv::slide {
namespace {

using Rgb = std::array<int, 3>;

Rgb At(const image::Image& picture, int64_t x, int64_t y) {
  const uint8_t* const rgb = picture.pixels.data() + 3 * (y * picture.width() + x);
  return {rgb[0], rgb[1], rgb[2]};
}

class Heatmap : public testing::Test {
 protected:
  Heatmap() : slide_(8000, 6000, {10}, 0.5) {
    slide_.Read(0, {0, 0, 800, 600}, overview_);
    facts_ = slide_.facts();
    facts_.levels[0] = {8000, 6000, 1};
  }

  const std::vector<std::array<int64_t, 2>> coords_ = {{4000, 3000}, {4500, 3000}};
  const std::vector<float> scores_ = {-1, 3};
  const TileScores tiles_{coords_, 500, scores_};
  const MadeSlide slide_;
  image::Image overview_;
  SlideFacts facts_;
};

TEST_F(Heatmap, ColoursTilesAlone) {
  const HeatmapStyle style = StyleOf("attention", tiles_, HeatValues::kRaw, 0.25);
  EXPECT_EQ(style.title, "attention");
  EXPECT_EQ(style.low, "-1");
  EXPECT_EQ(style.high, "3");
  const image::Image picture = DrawHeatmap(overview_, facts_, MakeHeatGrid(tiles_, HeatValues::kRaw), style);
  ASSERT_EQ(picture.width(), 800);
  ASSERT_GT(picture.height(), 600);
  for (const int64_t x : {100, 399, 500, 700}) EXPECT_EQ(At(picture, x, 320), At(overview_, x, 320)) << x;
  for (const int64_t y : {299, 350}) EXPECT_EQ(At(picture, 420, y), At(overview_, 420, y)) << y;
  for (const auto& [x, value] : {std::pair{400, 0.0}, {449, 0.0}, {450, 1.0}, {499, 1.0}}) {
    const image::Colour colour = image::ColourAt(kHeatColours, value);
    for (size_t c = 0; c < 3; ++c) {
      EXPECT_EQ(At(picture, x, 330)[c], std::lround(0.25 * colour[c] + 0.75 * At(overview_, x, 330)[c])) << x;
    }
  }
}

TEST_F(Heatmap, HasALegendWithItsEnds) {
  const image::Image picture = DrawHeatmap(overview_, facts_, MakeHeatGrid(tiles_, HeatValues::kRanked),
                                           StyleOf("attention", tiles_, HeatValues::kRanked, 1));
  // The bar of colours begins and ends with the map's.
  const int64_t size = 800 / 60, y = 600 + size / 2 + 1;
  const auto colour = [](double value) {
    const image::Colour c = image::ColourAt(kHeatColours, value);
    return Rgb{c[0], c[1], c[2]};
  };
  EXPECT_EQ(At(picture, size, y), colour(0));
  EXPECT_EQ(At(picture, size + 319, y), colour(1));
  EXPECT_EQ(At(picture, size + 320, y), (Rgb{255, 255, 255}));
  // 800 pixels of 5 µm: a bar of 500 µm, 100 pixels.
  EXPECT_EQ(At(picture, 800 - size - 1, y), (Rgb{31, 35, 40}));
  EXPECT_EQ(At(picture, 800 - size - 100, y), (Rgb{31, 35, 40}));
  EXPECT_EQ(At(picture, 800 - size - 101, y), (Rgb{255, 255, 255}));
}

TEST_F(Heatmap, OfANarrowSlideHasRoomForItsLegend) {
  image::Image narrow{Tensor<uint8_t>({300, 20, 3})};
  facts_.mpp_x = std::nullopt;
  const image::Image picture = DrawHeatmap(narrow, facts_, MakeHeatGrid(tiles_, HeatValues::kBlurred),
                                           StyleOf("attention", tiles_, HeatValues::kBlurred, 0.5));
  EXPECT_EQ(picture.width(), 480);
  EXPECT_EQ(At(picture, 10, 10), (Rgb{0, 0, 0}));
  EXPECT_EQ(At(picture, 20, 10), (Rgb{255, 255, 255}));
}

}  // namespace
}  // namespace qkv::slide
