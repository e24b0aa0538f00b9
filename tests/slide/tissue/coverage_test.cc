#include "qkv/slide/tissue/coverage.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "qkv/core/error.h"
#include "qkv/core/work.h"
#include "tests/slide/tissue/support.h"

namespace qkv::slide {
namespace {

Polygon Star(double x, double y, double radius, int points, std::mt19937& random) {
  std::uniform_real_distribution<double> length(0.3 * radius, radius);
  Polygon polygon;
  for (int i = 0; i < points; ++i) {
    const double angle = 2 * M_PI * i / points, r = length(random);
    polygon.outer.push_back({x + r * std::cos(angle), y + r * std::sin(angle)});
  }
  return polygon;
}

std::vector<double> Lefts(int count, double side) {
  std::vector<double> lefts;
  for (int i = 0; i < count; ++i) lefts.push_back(i * side);
  return lefts;
}

double AreaInTiles(const Tissue& tissue, int count, double side) {
  Coverage coverage(tissue);
  const std::vector<double> lefts = Lefts(count, side);
  std::vector<double> areas;
  double total = 0;
  for (int row = 0; row < count; ++row) {
    coverage.Next({row * side, side, lefts}, areas, nullptr);
    for (const double area : areas) {
      EXPECT_GE(area, -1e-6);
      EXPECT_LE(area, side * side * (1 + 1e-9));
      total += area;
    }
  }
  return total;
}

TEST(Coverage, AddsUpToThePolygonsArea) {
  std::mt19937 random(7);
  for (int points : {3, 10, 100, 2000}) {
    Polygon polygon = Star(500, 500, 480, points, random);
    polygon.holes.push_back(Star(500, 500, 100, points, random).outer);
    const Tissue tissue{{polygon}};
    EXPECT_NEAR(AreaInTiles(tissue, 20, 50) / AreaOfTissue(tissue), 1, 1e-9) << points;
    EXPECT_NEAR(AreaInTiles(tissue, 1, 1000) / AreaOfTissue(tissue), 1, 1e-9) << points;
  }
}

// Points that random ones hit, in any of the polygons.
TEST(Coverage, CountsOverlapsAndCrossingsOnce) {
  std::mt19937 random(8);
  for (int trial = 0; trial < 20; ++trial) {
    Tissue tissue;
    std::uniform_real_distribution<double> place(0, 100);
    for (int i = 0; i < 4; ++i) {
      Polygon& polygon = tissue.polygons.emplace_back();
      for (int j = 0; j < 7; ++j) polygon.outer.push_back({place(random), place(random)});  // crosses itself
    }
    constexpr int kSamples = 100;
    int hits = 0;
    for (int y = 0; y < kSamples; ++y) {
      for (int x = 0; x < kSamples; ++x) {
        bool inside = false;
        for (const Polygon& polygon : tissue.polygons) {
          inside |= InPolygon(polygon, (x + 0.5) * 100 / kSamples, (y + 0.5) * 100 / kSamples);
        }
        hits += inside;
      }
    }
    const double expected = 1e4 * hits / kSamples / kSamples;
    EXPECT_NEAR(AreaInTiles(tissue, 1, 100), expected, 120) << trial;
    EXPECT_NEAR(AreaInTiles(tissue, 7, 100.0 / 7), AreaInTiles(tissue, 1, 100), 1e-3) << trial;
  }
}

TEST(Coverage, IsExactForEqualAndTouchingAreas) {
  const Ring square{{10, 10}, {30, 10}, {30, 30}, {10, 30}};
  Ring turned(square.rbegin(), square.rend());
  EXPECT_EQ(AreaInTiles({{{square}, {square}, {turned}}}, 4, 16), 400);
  const Ring beside{{30, 10}, {40, 10}, {40, 30}, {30, 30}}, corner{{40, 30}, {50, 30}, {50, 40}, {40, 40}};
  EXPECT_EQ(AreaInTiles({{{square}, {beside}, {corner}}}, 4, 16), 700);
  EXPECT_EQ(AreaInTiles({{{square, {{{12, 12}, {14, 12}, {14, 14}, {12, 14}}}}}}, 4, 16), 396);
  EXPECT_EQ(AreaInTiles({{{square, {turned}}}}, 4, 16), 0);
}

TEST(Coverage, EndsWithinItsBudget) {
  std::mt19937 random(9);
  Polygon polygon;  // every line crosses every other
  for (int i = 0; i < 3000; ++i) {
    polygon.outer.push_back({static_cast<double>(random() % 100000), static_cast<double>(random() % 100000)});
  }
  const WorkBudget budget(2'000'000, "coverage");
  EXPECT_THROW(AreaInTiles({{polygon}}, 10, 10000), Error);
}

}  // namespace
}  // namespace qkv::slide
