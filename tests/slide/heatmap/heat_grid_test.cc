// Scores as values and grids against numpy (generate.py), and tiles that are refused.
#include "qkv/slide/heatmap/heat_grid.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "qkv/io/json.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace qkv::slide {
namespace {

// A float that a value in 0 … 1 was rounded to, and numbers of nine digits.
constexpr double kRounded = 2e-7;

void ExpectNear(std::span<const float> got, const io::Json& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    if (expected[i].is_null()) {
      EXPECT_TRUE(std::isnan(got[i])) << what << " " << i;
    } else {
      EXPECT_NEAR(got[i], expected[i].get<double>(), kRounded) << what << " " << i;
    }
  }
}

TEST(HeatGrid, EqualsNumpy) {
  const io::Json cases = io::ReadJson(SourceFolder() / "tests/slide/heatmap/heat_values.json");
  ASSERT_EQ(cases.size(), 4U);
  for (const auto& [name, each] : cases.items()) {
    const auto coords = each["coords"].get<std::vector<std::array<int64_t, 2>>>();
    const auto scores = each["scores"].get<std::vector<float>>();
    const TileScores tiles{coords, each["side"].get<int64_t>(), scores};
    ExpectNear(ScaleScores(scores, HeatValues::kRanked), each["ranked"], name + ", ranks");
    ExpectNear(ScaleScores(scores, HeatValues::kRaw), each["raw"], name + ", raw");
    for (const HeatValues values : kAllHeatValues) {
      const HeatGrid grid = MakeHeatGrid(tiles, values);
      EXPECT_EQ(grid.cell, each["cell"].get<int64_t>()) << name;
      ASSERT_EQ(grid.values.shape(), Shape({each["rows"].get<int64_t>(), each["columns"].get<int64_t>()})) << name;
      const std::string what(HeatValuesName(values));
      ExpectNear(grid.values.span(), each[what + "_grid"], name + ", " + what);
    }
  }
}

TEST(HeatGrid, ReadsCellsAndBetweenThem) {
  const std::vector<std::array<int64_t, 2>> coords = {{100, 50}, {110, 50}, {130, 50}};
  const std::vector<float> scores = {0, 1, 0.5F};
  const HeatGrid grid = MakeHeatGrid({coords, 10, scores}, HeatValues::kRaw);
  ASSERT_EQ(grid.values.shape(), Shape({1, 4}));
  EXPECT_EQ(grid.At(100, 50), 0);
  EXPECT_EQ(grid.At(119.9, 59.9), 1);
  EXPECT_TRUE(std::isnan(grid.At(120, 50)));
  EXPECT_EQ(grid.At(139, 51), 0.5F);
  EXPECT_TRUE(std::isnan(grid.At(99.9, 50)));
  EXPECT_TRUE(std::isnan(grid.At(100, 60)));
  EXPECT_TRUE(std::isnan(grid.At(std::nan(""), 50)));
  EXPECT_FLOAT_EQ(grid.Smooth(110, 55), 0.5F);
  EXPECT_FLOAT_EQ(grid.Smooth(115, 51), 1);
  EXPECT_TRUE(std::isnan(grid.Smooth(125, 55)));
  EXPECT_FLOAT_EQ(grid.Smooth(131, 55), 0.5F);  // nothing of the hole beside it
}

TEST(HeatGrid, BoundsItsCells) {
  // Two tiles at the ends of what is allowed.
  const std::vector<std::array<int64_t, 2>> coords = {{-999'999'999, 0}, {999'999'999, 999'999'999}, {1, 1}};
  const std::vector<float> scores = {0, 1, 2};
  const HeatGrid grid = MakeHeatGrid({coords, 256, scores}, HeatValues::kBlurred);
  EXPECT_LE(std::max(grid.rows(), grid.columns()), 2048);
  const HeatGrid large = MakeHeatGrid({coords, 999'999'999, scores}, HeatValues::kBlurred);
  EXPECT_LE(std::max(large.rows(), large.columns()), 2048);
}

TEST(HeatGrid, RefusesWrongTiles) {
  const std::vector<std::array<int64_t, 2>> coords = {{0, 0}, {1'000'000'000, 0}};
  const auto refused = [&](const TileScores& tiles) {
    return ErrorMessage([&] { MakeHeatGrid(tiles, HeatValues::kRaw); });
  };
  const std::vector<float> scores = {1, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_EQ(refused({}), "heatmap: expected at least one tile, got none");
  EXPECT_EQ(refused({coords, 256, {scores.data(), 1}}), "heatmap: expected a score for each of 2 tiles, got 1");
  EXPECT_EQ(refused({coords, 0, scores}), "heatmap: expected a tile's side in 1 … 999999999, got 0");
  EXPECT_EQ(refused({coords, 256, scores}),
            "heatmap: tile 1: expected coordinates below 1000000000, got 1000000000, 0");
  const std::vector<std::array<int64_t, 2>> two = {{0, 0}, {256, 0}};
  EXPECT_EQ(refused({two, 256, scores}), "heatmap: tile 1 at 256, 0: expected a finite score, got nan");
}

}  // namespace
}  // namespace qkv::slide
