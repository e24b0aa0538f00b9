// Scores as GeoJSON: a detection for each tile, and areas whose sums are those of their tiles.
#include "qkv/slide/heatmap/heat_areas.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "qkv/io/json.h"
#include "tests/support/files.h"

namespace qkv::slide {
namespace {

double RingArea(const Ring& ring) {
  double twice = 0;
  for (size_t i = 0; i < ring.size(); ++i) {
    const Point &a = ring[i], &b = ring[(i + 1) % ring.size()];
    twice += a[0] * b[1] - a[1] * b[0];
  }
  return std::abs(twice) / 2;
}

// 40 × 40 tiles at a corner away from zero, whose scores grow to the right and below.
class HeatAreasTest : public testing::Test {
 protected:
  HeatAreasTest() {
    for (int64_t y = 0; y < 40; ++y) {
      for (int64_t x = 0; x < 40; ++x) {
        coords_.push_back({1000 + 256 * x, 500 + 256 * y});
        scores_.push_back(static_cast<float>(x * 40 + y));
      }
    }
    tiles_ = {coords_, 256, scores_};
  }

  std::vector<std::array<int64_t, 2>> coords_;
  std::vector<float> scores_;
  TileScores tiles_;
};

TEST_F(HeatAreasTest, BandsAreTheTopPartsOfTiles) {
  std::map<std::string, int> tiles;
  TileFeatures features(tiles_, "attention");
  Feature feature;
  size_t count = 0;
  while (features(feature)) {
    EXPECT_TRUE(feature.detection);
    ASSERT_EQ(feature.measurements.size(), 2U);
    EXPECT_EQ(feature.measurements[0].first, "attention");
    EXPECT_EQ(feature.measurements[0].second, scores_[count]);
    EXPECT_EQ(feature.measurements[1].first, "attention rank");
    EXPECT_EQ(RingArea(feature.area.outer), 256 * 256);
    EXPECT_EQ(feature.area.outer[0],
              (Point{static_cast<double>(coords_[count][0]), static_cast<double>(coords_[count][1])}));
    ++tiles[feature.classification.name];
    ++count;
  }
  EXPECT_EQ(count, 1600U);
  EXPECT_EQ(tiles, (std::map<std::string, int>{{"attention: top 1 %", 16},
                                               {"attention: top 5 %", 64},
                                               {"attention: top 10 %", 80},
                                               {"attention: top 25 %", 240},
                                               {"attention: top 50 %", 400},
                                               {"attention: lower half", 800}}));
}

TEST_F(HeatAreasTest, AreasCoverTheirTiles) {
  std::map<std::string, double> areas;
  for (const Feature& feature : HeatAreas(tiles_, "attention")) {
    EXPECT_FALSE(feature.detection);
    double area = RingArea(feature.area.outer);
    for (const Ring& hole : feature.area.holes) area -= RingArea(hole);
    areas[feature.classification.name] += area / (256 * 256);
    for (const Point& point : feature.area.outer) {
      EXPECT_GE(point[0], 1000);
      EXPECT_LE(point[0], 1000 + 40 * 256);
    }
  }
  EXPECT_EQ(areas, (std::map<std::string, double>{{"attention: top 1 %", 16},
                                                  {"attention: top 5 %", 64},
                                                  {"attention: top 10 %", 80},
                                                  {"attention: top 25 %", 240},
                                                  {"attention: top 50 %", 400},
                                                  {"attention: lower half", 800}}));
}

TEST_F(HeatAreasTest, FilesAreGeoJson) {
  const TemporaryFolder folder;
  WriteGeoJson(folder / "tiles.geojson", TileFeatures(tiles_, "attention"));
  const io::Json json = io::ReadJson(folder / "tiles.geojson");
  ASSERT_EQ(json["features"].size(), 1600U);
  EXPECT_EQ(json["features"][7]["properties"]["objectType"], "detection");
  EXPECT_EQ(json["features"][7]["properties"]["measurements"]["attention"], 7 * 40);
}

}  // namespace
}  // namespace qkv::slide
