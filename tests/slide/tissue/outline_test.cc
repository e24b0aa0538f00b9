#include "qkv/slide/tissue/outline.h"

#include <gtest/gtest.h>

#include <random>

#include "qkv/core/work.h"
#include "tests/slide/tissue/support.h"

namespace qkv::slide {
namespace {

// Each value the mean of a square around it.
std::vector<double> Blurred(const std::vector<double>& from, int64_t width, int64_t height, int64_t radius) {
  std::vector<double> field(from.size());
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      double sum = 0, count = 0;
      for (int64_t v = std::max<int64_t>(0, y - radius); v <= std::min(height - 1, y + radius); ++v) {
        for (int64_t u = std::max<int64_t>(0, x - radius); u <= std::min(width - 1, x + radius); ++u) {
          sum += from[static_cast<size_t>(v * width + u)], ++count;
        }
      }
      field[static_cast<size_t>(y * width + x)] = sum / count;
    }
  }
  return field;
}

// A random field above its mean, without corners that touch; blurred more often it has smoother borders.
Mask Blobs(int64_t width, int64_t height, int64_t radius, int times, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<double> field(static_cast<size_t>(width * height));
  for (double& value : field) value = static_cast<double>(random() % 1000);
  for (int i = 0; i < times; ++i) field = Blurred(field, width, height, radius);
  Mask mask{width, height, {}};
  for (const double value : field) mask.inside.push_back(value > 500);
  Tidy(mask, 0, 0, true);
  return mask;
}

double Side(const Point& a, const Point& b, const Point& c) {
  return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
}

// Every pair of lines: neighbours meet in their point only, others not at all.
void ExpectValid(const std::vector<Polygon>& polygons) {
  struct Line {
    Point a, b;
    size_t ring, index, points;
  };
  std::vector<Line> lines;
  size_t rings = 0;
  const auto add = [&](const Ring& ring) {
    ASSERT_GE(ring.size(), 3u);
    for (size_t i = 0; i < ring.size(); ++i)
      lines.push_back({ring[i], ring[(i + 1) % ring.size()], rings, i, ring.size()});
    ++rings;
  };
  for (const Polygon& polygon : polygons) {
    add(polygon.outer);
    for (const Ring& hole : polygon.holes) add(hole);
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    for (size_t j = i + 1; j < lines.size(); ++j) {
      const Line &s = lines[i], &t = lines[j];
      if (s.ring == t.ring && (s.index + 1 == t.index || (s.index == 0 && t.index + 1 == t.points))) continue;
      const auto apart = [](double p, double q) { return (p > 0 && q > 0) || (p < 0 && q < 0); };
      const bool boxes = std::max(s.a[0], s.b[0]) >= std::min(t.a[0], t.b[0]) &&
                         std::max(t.a[0], t.b[0]) >= std::min(s.a[0], s.b[0]) &&
                         std::max(s.a[1], s.b[1]) >= std::min(t.a[1], t.b[1]) &&
                         std::max(t.a[1], t.b[1]) >= std::min(s.a[1], s.b[1]);
      ASSERT_TRUE(!boxes || apart(Side(s.a, s.b, t.a), Side(s.a, s.b, t.b)) ||
                  apart(Side(t.a, t.b, s.a), Side(t.a, t.b, s.b)))
          << s.a[0] << "," << s.a[1] << " " << t.a[0] << "," << t.a[1];
    }
  }
}

// Pixels whose neighbours are as they are lie on the right side of the outline; each piece is one polygon.
void ExpectSamePixels(const Mask& mask, const std::vector<Polygon>& polygons, double scale) {
  for (int64_t y = 0; y < mask.height; ++y) {
    for (int64_t x = 0; x < mask.width; ++x) {
      bool uniform = true;
      for (int v = -1; v <= 1; ++v) {
        for (int u = -1; u <= 1; ++u) uniform &= mask.At(x + u, y + v) == mask.At(x, y);
      }
      if (!uniform) continue;
      int within = 0;
      for (const Polygon& polygon : polygons) {
        within += InPolygon(polygon, (static_cast<double>(x) + 0.5) * scale, (static_cast<double>(y) + 0.5) * scale);
      }
      ASSERT_EQ(within, mask.At(x, y)) << x << " " << y;
    }
  }
}

TEST(Outlines, AreValidAndFollowTheMask) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    const Mask mask = Blobs(60, 45, seed % 4, 1, seed);
    const double scale = seed % 3 == 0 ? 1 : 16.37;
    const std::vector<Polygon> polygons = Outlines(mask, scale, scale);
    ExpectValid(polygons);
    ExpectSamePixels(mask, polygons, scale);
  }
}

TEST(Outlines, HaveFewPoints) {
  const Mask mask = Blobs(400, 300, 4, 3, 5);
  size_t corners = 0, points = 0;
  double area = 0;
  for (int64_t y = 0; y <= 300; ++y) {
    for (int64_t x = 0; x <= 400; ++x) {
      const int around = mask.At(x, y) + mask.At(x - 1, y) + mask.At(x, y - 1) + mask.At(x - 1, y - 1);
      corners += around == 1 || around == 3;
    }
  }
  for (const Polygon& polygon : Outlines(mask, 20, 20)) {
    area += AreaOfTissue({{polygon}}) / 400;
    points += polygon.outer.size();
    for (const Ring& hole : polygon.holes) points += hole.size();
  }
  EXPECT_LT(points * 3, corners) << points << " of " << corners;
  const auto pixels = static_cast<double>(std::count(mask.inside.begin(), mask.inside.end(), 1));
  EXPECT_NEAR(area / pixels, 1, 0.01);
}

Mask Sketch(const std::vector<std::string>& rows) {
  Mask mask{std::ssize(rows[0]), std::ssize(rows), {}};
  for (const std::string& row : rows) {
    for (const char c : row) mask.inside.push_back(c == '#');
  }
  return mask;
}

TEST(Outlines, NestHolesAndIslands) {
  const std::vector<Polygon> polygons =
      Outlines(Sketch({"#############", "#...##.....##", "#...##.###.##", "#...##.###.##", "######.....##",
                       "#############", "....#########"}),
               10, 10);
  ASSERT_EQ(polygons.size(), 2u);
  EXPECT_EQ(polygons[0].holes.size(), 2u);
  EXPECT_EQ(polygons[1].holes.size(), 0u);
  EXPECT_EQ(polygons[1].outer, (Ring{{100, 20}, {100, 40}, {70, 40}, {70, 20}}));
  EXPECT_NEAR(AreaOfTissue({polygons}), 6400, 300);
}

TEST(Outlines, TakeAShortTimeForCombs) {
  Mask mask{40000, 8, std::vector<uint8_t>(40000 * 8, 1)};
  for (int64_t y = 0; y < 5; ++y) {
    for (int64_t x = 0; x < 40000; ++x) mask.inside[static_cast<size_t>(y * 40000 + x)] = x % 4 < 2;
  }
  const int64_t before = StepsDone();
  const std::vector<Polygon> polygons = Outlines(mask, 3, 3);
  EXPECT_LT(StepsDone() - before, 100'000'000);
  ASSERT_EQ(polygons.size(), 1u);
  EXPECT_EQ(polygons[0].outer.size(), 40002u);  // four corners a tooth
}

TEST(Outlines, KeepSinglePixelsAndTheWholePicture) {
  const std::vector<Polygon> one = Outlines(Sketch({"...", ".#.", "..."}), 8.5, 8.5);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].outer.size(), 4u);
  const std::vector<Polygon> all = Outlines(Sketch({"####", "####"}), 1.25, 1.25);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(AreaOfTissue({all}), 5 * 2.5);
  EXPECT_TRUE(Outlines(Sketch({"....", "...."}), 1, 1).empty());
}

}  // namespace
}  // namespace qkv::slide
