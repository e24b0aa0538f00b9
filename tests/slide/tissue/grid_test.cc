#include "qkv/slide/tissue/grid.h"

#include <gtest/gtest.h>

#include <cmath>

#include "qkv/core/file.h"
#include "qkv/io/json.h"
#include "tests/slide/picture_slide.h"
#include "tests/slide/tissue/support.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace qkv::slide {
namespace {

SlideFacts FactsOf(const io::Json& json) {
  SlideFacts facts;
  for (const io::Json& level : json["levels"]) facts.levels.push_back({level[0], level[1], level[2]});
  if (json.contains("mpp")) facts.mpp_x = facts.mpp_y = json["mpp"].get<double>();
  if (json.contains("magnification")) facts.magnification = json["magnification"].get<double>();
  return facts;
}

GridOptions OptionsOf(const io::Json& json) {
  GridOptions options{.tile = json["tile"], .overlap = json["overlap"], .min_tissue = json["min_tissue"]};
  if (json.contains("mpp")) options.mpp = json["mpp"].get<double>();
  if (json.contains("magnification")) options.magnification = json["magnification"].get<double>();
  return options;
}

Tissue TissueOf(const io::Json& json) {
  Tissue tissue;
  for (const io::Json& rings : json) {
    Polygon& polygon = tissue.polygons.emplace_back();
    polygon.outer = rings[0].get<Ring>();
    for (size_t i = 1; i < rings.size(); ++i) polygon.holes.push_back(rings[i].get<Ring>());
  }
  return tissue;
}

TEST(PlanGrid, HasTheTilesOfTridentsArithmeticWithShapelysAreas) {
  size_t tiles = 0;
  for (const io::Json& item : TissueGolden("grid")) {
    SCOPED_TRACE(item["options"].dump() + item["slide"].dump());
    const Grid grid = PlanGrid(FactsOf(item["slide"]), TissueOf(item["polygons"]), OptionsOf(item["options"]));
    const io::Json& expected = item["expected"];
    EXPECT_EQ(grid.level, expected["level"]);
    EXPECT_EQ(grid.size_at_level, expected["size_at_level"]);
    EXPECT_EQ(grid.size_at_level0, expected["size_at_level0"]);
    EXPECT_EQ(grid.overlap_at_level0, expected["overlap_at_level0"]);
    EXPECT_EQ(grid.level0_magnification, expected["level0_magnification"]);
    std::vector<int64_t> coords;
    for (const auto& [x, y] : grid.coords) coords.push_back(x), coords.push_back(y);
    EXPECT_EQ(coords, expected["coords"].get<std::vector<int64_t>>());
    tiles += grid.coords.size();
  }
  EXPECT_GT(tiles, 1000u);
}

SlideFacts Plain(int64_t width, int64_t height, std::optional<double> mpp) {
  SlideFacts facts;
  facts.levels = {{width, height, 1}};
  facts.mpp_x = facts.mpp_y = mpp;
  return facts;
}

Tissue Box(double left, double top, double right, double bottom) {
  return {{{.outer = {{left, top}, {right, top}, {right, bottom}, {left, bottom}}}}};
}

TEST(PlanGrid, GoesRowByRowToBeyondTheBorder) {
  const Grid grid = PlanGrid(Plain(600, 300, 0.5), Box(0, 0, 600, 300), {.min_tissue = 0.1});
  const std::vector<std::array<int64_t, 2>> expected{{0, 0}, {256, 0}, {512, 0}, {0, 256}, {256, 256}};
  EXPECT_EQ(grid.coords, expected);  // the tile at 512, 256 has 88 × 44 pixels of tissue: 6 %
}

TEST(PlanGrid, KeepsATileThatIsCoveredToItsThresholdExactly) {
  for (const auto& [width, tiles] : std::vector<std::pair<double, size_t>>{{128, 1}, {127.9999, 0}}) {
    EXPECT_EQ(PlanGrid(Plain(256, 256, 0.5), Box(0, 0, width, 256), {}).coords.size(), tiles) << width;
  }
  EXPECT_EQ(PlanGrid(Plain(256, 256, 0.5), Box(0, 0, 256, 256), {.min_tissue = 1}).coords.size(), 1u);
}

TEST(PlanGrid, TakesEveryTileThatTouchesTissueAtZero) {
  // The area ends on the border of the second column, which touches it; none touches nothing.
  EXPECT_EQ(PlanGrid(Plain(1024, 256, 0.5), Box(10, 10, 256, 20), {.min_tissue = 0}).coords.size(), 2u);
  EXPECT_EQ(PlanGrid(Plain(1024, 256, 0.5), {}, {.min_tissue = 0}).coords.size(), 0u);
  EXPECT_EQ(PlanGrid(Plain(1024, 768, 0.5), Box(-50, -50, 2000, 2000), {.min_tissue = 0}).coords.size(), 12u);
}

TEST(PlanGrid, SaysWhatIsMissingOrCannotBe) {
  const auto message = [](const SlideFacts& facts, const GridOptions& options) {
    return ErrorMessage([&] { PlanGrid(facts, Box(0, 0, 9, 9), options); });
  };
  const SlideFacts plain = Plain(1000, 1000, 0.5);
  EXPECT_NE(message(Plain(9, 9, std::nullopt), {}).find("neither microns a pixel nor its magnification"),
            std::string::npos);
  EXPECT_NE(message(plain, {.magnification = 40}).find("no finer than the slide (20×, 0.5 microns"), std::string::npos);
  EXPECT_NE(message(Plain(9, 9, 3.0), {}).find("ask for tiles by microns"), std::string::npos);
  EXPECT_NE(message(plain, {.magnification = 20, .mpp = 0.5}).find("got both"), std::string::npos);
  EXPECT_NE(message(plain, {.tile = 0}).find("tiles of 1 to"), std::string::npos);
  EXPECT_NE(message(plain, {.overlap = 256}).find("less than a tile"), std::string::npos);
  EXPECT_NE(message(plain, {.min_tissue = 1.5}).find("share of tissue of 0 to 1"), std::string::npos);
  EXPECT_NE(message(plain, {.min_tissue = std::nan("")}).find("share of tissue of 0 to 1"), std::string::npos);
  EXPECT_NE(message(plain, {.mpp = 1e30}).find("grid: "), std::string::npos);
  EXPECT_NE(message(Plain(9, 9, -0.5), {}).find("microns a pixel above 0, the slide says -0.5"), std::string::npos);
  EXPECT_NE(message(Plain(9, 9, std::nan("")), {.mpp = 1}).find("microns a pixel above 0"), std::string::npos);
  EXPECT_NE(message(Plain(0, 9, 0.5), {}).find("no pixels"), std::string::npos);
  EXPECT_NE(message({}, {}).find("no pixels"), std::string::npos);
  EXPECT_NO_THROW(PlanGrid(Plain(1000, 1000, 0.5021), {}, {.mpp = 0.5}));  // finer by rounding
}

TEST(ReadTile, ReadsPixelsAsTheyAreOrResizedAsByPillow) {
  image::Image picture{Tensor<uint8_t>({90, 120, 3})};
  for (int64_t y = 0; y < 90; ++y) {
    for (int64_t x = 0; x < 120; ++x) {
      for (int64_t c = 0; c < 3; ++c)
        picture.pixels.data()[3 * (y * 120 + x) + c] = static_cast<uint8_t>(x * x + 7 * y + 31 * c * x);
    }
  }
  const PictureSlide slide(picture);
  for (const io::Json& item : TissueGolden("tile")) {
    Grid grid;
    grid.options.tile = item["tile"];
    grid.size_at_level = item["size"];
    grid.coords = {{item["left"], item["top"]}};
    image::Image tile;
    ReadTile(slide, grid, 0, tile);
    const std::vector<uint8_t> expected = FromHex(item["pixels"]);
    ASSERT_EQ(tile.pixels.size(), std::ssize(expected));
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), tile.pixels.data())) << item["size"];
    EXPECT_THROW(ReadTile(slide, grid, 1, tile), Error);
  }
}

TEST(ReadTile, RoundsTheCornerAtItsLevel) {
  // A downsample of 3.99975: the corner 1024 is 256.016 there.
  image::Image picture{Tensor<uint8_t>({64, 512, 3})};
  for (int64_t i = 0; i < picture.pixels.size(); ++i) picture.pixels.data()[i] = static_cast<uint8_t>(i / 3 % 512 / 2);
  PictureSlide slide(picture);
  slide.facts().levels[0].downsample = 3.99975;
  Grid grid;
  grid.options.tile = grid.size_at_level = 4;
  grid.coords = {{1020, 0}, {1024, 0}};  // 255.016, 256.016
  image::Image tile;
  ReadTile(slide, grid, 0, tile);
  EXPECT_EQ(tile.pixels.data()[0], 127);
  ReadTile(slide, grid, 1, tile);
  EXPECT_EQ(tile.pixels.data()[0], 128);
}

}  // namespace
}  // namespace qkv::slide
