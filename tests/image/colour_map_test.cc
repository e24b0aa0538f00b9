// What the colour maps promise, measured in Oklab, which this file computes from sRGB on its own.
#include "qkv/image/colour_map.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace qkv::image {
namespace {

using Lab = std::array<double, 3>;

// Ottosson 2020, from sRGB.
Lab ToOklab(const Colour& colour) {
  std::array<double, 3> c;
  for (size_t i = 0; i < 3; ++i) {
    const double x = colour[i] / 255.0;
    c[i] = x <= 0.04045 ? x / 12.92 : std::pow((x + 0.055) / 1.055, 2.4);
  }
  const double l = std::cbrt(0.4122214708 * c[0] + 0.5363325363 * c[1] + 0.0514459929 * c[2]);
  const double m = std::cbrt(0.2119034982 * c[0] + 0.6806995451 * c[1] + 0.1073969566 * c[2]);
  const double s = std::cbrt(0.0883024619 * c[0] + 0.2817188376 * c[1] + 0.6299787005 * c[2]);
  return {0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
          1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
          0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s};
}

double Distance(const Lab& a, const Lab& b) { return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]); }

// Steps of this many entries: a rounded sRGB value is off by up to half a level a channel, about 0.003 in Oklab.
constexpr int kStep = 15;

double Step(ColourMap map, int i) {
  return Distance(ToOklab(ColourAt(map, i / 255.0)), ToOklab(ColourAt(map, (i + kStep) / 255.0)));
}

TEST(ColourMap, EqualStepsLookEqual) {
  for (const ColourMap map : {ColourMap::kSequential, ColourMap::kDiverging}) {
    // The diverging map turns in the middle, between two of these steps.
    double least = 1, greatest = 0;
    for (int i = 0; i + kStep <= 255; i += kStep) {
      if (map == ColourMap::kDiverging && i < 128 && i + kStep > 127) continue;
      least = std::min(least, Step(map, i));
      greatest = std::max(greatest, Step(map, i));
    }
    // Chords of a bent curve, each end off by rounding: within an eighth of each other on steps of 0.05.
    // The two arms of the diverging map need not be as long as each other, but nearly.
    EXPECT_LT(greatest / least, map == ColourMap::kDiverging ? 1.15 : 1.125);
    EXPECT_GT(least, 0.02);
  }
}

TEST(ColourMap, SequentialGetsEverLighter) {
  double before = -1;
  for (int i = 0; i < 256; i += 2) {
    const double lightness = ToOklab(ColourAt(ColourMap::kSequential, i / 255.0))[0];
    EXPECT_GT(lightness, before) << i;
    before = lightness;
  }
  EXPECT_LT(ToOklab(ColourAt(ColourMap::kSequential, 0))[0], 0.27);
  EXPECT_GT(ToOklab(ColourAt(ColourMap::kSequential, 1))[0], 0.92);
}

TEST(ColourMap, DivergingIsBalanced) {
  for (int i = 0; i < 128; ++i) {
    const Lab low = ToOklab(ColourAt(ColourMap::kDiverging, i / 255.0));
    const Lab high = ToOklab(ColourAt(ColourMap::kDiverging, 1 - i / 255.0));
    EXPECT_NEAR(low[0], high[0], 0.006) << i;  // two roundings
  }
  EXPECT_LT(ToOklab(ColourAt(ColourMap::kDiverging, 0))[2], -0.1);  // blue
  EXPECT_GT(ToOklab(ColourAt(ColourMap::kDiverging, 1))[1], 0.1);   // red
  EXPECT_GT(ToOklab(ColourAt(ColourMap::kDiverging, 0.5))[0], 0.95);
}

TEST(ColourMap, BeyondTheEnds) {
  for (const ColourMap map : {ColourMap::kSequential, ColourMap::kDiverging}) {
    EXPECT_EQ(ColourAt(map, -3), ColourAt(map, 0));
    EXPECT_EQ(ColourAt(map, std::numeric_limits<double>::infinity()), ColourAt(map, 1));
    EXPECT_EQ(ColourAt(map, std::nan("")), (Colour{128, 128, 128}));
  }
  EXPECT_EQ(Hex({0, 10, 255}), "#000aff");
}

}  // namespace
}  // namespace qkv::image
