#include "qkv/report/plot.h"

#include <gtest/gtest.h>

#include <cmath>

#include "qkv/core/error.h"
#include "tests/report/xml.h"

namespace qkv::report {
namespace {

std::vector<std::string> Labels(double low, double high, bool log) {
  std::vector<std::string> labels;
  for (const Tick& tick : RoundTicks(low, high, log)) labels.push_back(tick.label);
  return labels;
}

using Words = std::vector<std::string>;

TEST(RoundTicks, StandAtRoundNumbers) {
  EXPECT_EQ(Labels(0, 1, false), (Words{"0", "0.2", "0.4", "0.6", "0.8", "1"}));
  EXPECT_EQ(Labels(0, 50'000, false), (Words{"0", "10,000", "20,000", "30,000", "40,000", "50,000"}));
  EXPECT_EQ(Labels(-1, 1, false), (Words{"−1", "−0.5", "0", "0.5", "1"}));
  EXPECT_EQ(Labels(0.1, 0.3, false), (Words{"0.1", "0.15", "0.2", "0.25", "0.3"}));
  EXPECT_EQ(Labels(0, 3e-5, false), (Words{"0", "10⁻⁵", "2·10⁻⁵", "3·10⁻⁵"}));
}

TEST(RoundTicks, OfALogarithmicAxisArePowersOfTen) {
  EXPECT_EQ(Labels(1, 10'000, true), (Words{"1", "10", "100", "1000", "10,000"}));
  EXPECT_EQ(Labels(1, 20, true), (Words{"1", "2", "5", "10", "20"}));
  EXPECT_EQ(Labels(1e-6, 1e6, true), (Words{"10⁻⁶", "0.0001", "0.01", "1", "100", "10,000", "10⁶"}));
}

TEST(RoundTicks, AreFewAndInside) {
  for (const double width : {1e-12, 0.003, 0.7, 1.0, 6.1, 777.0, 1e9}) {
    for (const double low : {-3.3 * width, 0.0, 0.1 * width, 12.0 * width}) {
      const auto ticks = RoundTicks(low, low + width, false);
      EXPECT_GE(ticks.size(), 3u) << low << " " << width;
      EXPECT_LE(ticks.size(), 9u) << low << " " << width;
      for (const Tick& tick : ticks) {
        EXPECT_GE(tick.value, low - 1e-9 * width);
        EXPECT_LE(tick.value, low + width * (1 + 1e-9));
      }
    }
    for (const double ratio : {1.3, 3.0, 40.0, 1e5, 1e30}) {
      const auto ticks = RoundTicks(width, width * ratio, true);
      EXPECT_GE(ticks.size(), 3u) << width << " " << ratio;
      EXPECT_LE(ticks.size(), 10u) << width << " " << ratio;
    }
  }
}

TEST(RoundTicks, RefusesAnEmptyExtent) {
  EXPECT_THROW(RoundTicks(1, 1, false), Error);
  EXPECT_THROW(RoundTicks(0, 1, true), Error);
  EXPECT_THROW(RoundTicks(0, INFINITY, false), Error);
}

TEST(Fit, HoldsWhatCanBeShown) {
  const std::vector<double> values = {0.13, 0.91, NAN, INFINITY};
  EXPECT_EQ(Fit({}, values).low, 0);
  EXPECT_EQ(Fit({}, values).high, 1);
  EXPECT_EQ(Fit({}, values, true).low, 0.13);
  EXPECT_EQ(Fit({.low = -4, .high = 4}, values).high, 4);
  const std::vector<double> mixed = {-1, 0, 3, 700};
  const Axis log = Fit({.log = true}, mixed);
  EXPECT_DOUBLE_EQ(log.low, 1);
  EXPECT_DOUBLE_EQ(log.high, 1000);
}

TEST(Fit, OneValueAndNoneHaveAnExtentToo) {
  const std::vector<double> one = {5}, zero = {0};
  EXPECT_LT(Fit({}, one).low, 5);
  EXPECT_GT(Fit({}, one).high, 5);
  EXPECT_LT(Fit({}, zero).low, Fit({}, zero).high);
  EXPECT_LT(Fit({.log = true}, {}).low, Fit({.log = true}, {}).high);
}

TEST(Plot, MapsValuesToPixels) {
  Svg svg("t", "d");
  const Plot plot(svg, {100, 50}, 200, 80, {.low = 0, .high = 10}, {.log = true, .low = 1, .high = 100});
  const Point middle = plot.At({5, 10});
  EXPECT_DOUBLE_EQ(middle.x, 200);
  EXPECT_DOUBLE_EQ(middle.y, 90);
  EXPECT_TRUE(plot.Shows({10, 100}));
  EXPECT_FALSE(plot.Shows({5, 0}));
  EXPECT_FALSE(plot.Shows({NAN, 10}));
  EXPECT_FALSE(plot.Shows({11, 10}));
}

TEST(Plot, CurvesBreakWhereNothingCanBeShown) {
  Svg svg("t", "d");
  Plot plot(svg, {40, 40}, 200, 100, {.low = 0, .high = 4}, {.low = 0, .high = 1});
  const std::vector<Point> points = {{0, .1}, {1, .2}, {2, NAN}, {3, .3}, {4, .4}};
  plot.Curve(points, "s0");
  plot.Region(std::vector<Point>{{-5, 0}, {9, 0}, {9, 7}}, "f0 pale", "beyond");
  const std::string document = svg.Finish(300, 200);
  EXPECT_EQ(Count(document, "<polyline"), 2);
  EXPECT_NE(document.find("40,140 240,140 240,40"), std::string::npos) << "corners are moved to the edge";
  EXPECT_TRUE(IsXml(document));
}

TEST(Plot, RefusesAnEmptyAxis) {
  Svg svg("t", "d");
  EXPECT_THROW(Plot(svg, {0, 0}, 10, 10, {.low = 1, .high = 1}, {.low = 0, .high = 1}), Error);
}

TEST(Svg, RefusesCoordinatesThatAreNotFinite) {
  Svg svg("t", "d");
  svg.Circle({NAN, 0}, 1, "f0");
  EXPECT_THROW(svg.Finish(10, 10), Error);
}

TEST(Legend, TakesAnotherLineWhenOneIsFull) {
  Svg svg("t", "d");
  const std::vector<std::string> names = {"a", "b", "c"}, long_names(3, std::string(40, 'x'));
  EXPECT_LT(Legend(svg, {0, 0}, 400, names), Legend(svg, {0, 0}, 400, long_names));
  EXPECT_EQ(Legend(svg, {0, 0}, 400, {}), 0);
}

}  // namespace
}  // namespace qkv::report
