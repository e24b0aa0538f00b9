#include "qkv/report/charts.h"

#include <gtest/gtest.h>

#include <cmath>

#include "qkv/core/error.h"
#include "tests/report/xml.h"

namespace qkv::report {
namespace {

constexpr const char* kHostile = "</svg><script>alert(\"1\")</script> & 'x' \x01";

LineChart Lines() {
  return {.heading = {"Variance of the scores"},
          .x = {.name = "E", .log = true},
          .y = {.name = "variance", .log = true},
          .series = {{.name = "raw", .samples = {{4, 4, 3.5, 4.5}, {64, 64}, {1024, 1010}}},
                     {.name = "scaled", .samples = {{4, 1}, {64, 1.02}, {1024, .99}}, .dashed = true}}};
}

TEST(LineChart, DrawsEverySeries) {
  const std::string svg = Draw(Lines());
  EXPECT_TRUE(IsXml(svg));
  EXPECT_EQ(Count(svg, "<polyline"), 2);
  EXPECT_EQ(Count(svg, "<circle"), 6);
  EXPECT_EQ(Count(svg, "dashed\""), 1);
  EXPECT_NE(svg.find("role=\"img\""), std::string::npos);
  EXPECT_NE(svg.find("<title>Variance of the scores</title>"), std::string::npos);
  EXPECT_NE(svg.find("<desc>Variance of the scores</desc>"), std::string::npos);
}

TEST(LineChart, WhatCannotBeShownIsAGap) {
  LineChart chart = Lines();
  chart.series[0].samples[1].y = NAN;
  chart.series[1].samples[0].y = -1;  // on a logarithmic axis
  chart.series[1].samples[2].y = INFINITY;
  const std::string svg = Draw(chart);
  EXPECT_TRUE(IsXml(svg));
  EXPECT_EQ(Count(svg, "<circle"), 3);
  EXPECT_EQ(Count(svg, "<polyline"), 0);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

TEST(IntervalChart, DrawsMeansIntervalsAndValues) {
  IntervalChart chart{.heading = {"Accuracy"},
                      .value_name = "%",
                      .rows = {{.name = kHostile, .mean = 60, .half = 2, .values = {{59, "one"}, {61, kHostile}}},
                               {.name = "no interval", .mean = 55, .half = INFINITY, .values = {{55, "one"}}},
                               {.name = "nothing yet"}},
                      .guide = 60};
  const std::string svg = Draw(chart);
  EXPECT_TRUE(IsXml(svg));
  EXPECT_EQ(Count(svg, "<circle"), 5);
  EXPECT_EQ(Count(svg, "<polyline"), 1);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  chart.rows[0].half = 20;
  EXPECT_NE(Draw(chart), svg) << "a wider interval is seen";
}

TEST(IntervalChart, EndsAtTheGreatestPossibleValue) {
  IntervalChart chart{.heading = {"Accuracy"},
                      .rows = {{.name = "a", .mean = 99, .half = 3, .values = {{70, ""}, {100, ""}}}}};
  EXPECT_NE(Draw(chart).find(">110</text>"), std::string::npos) << Draw(chart);
  chart.greatest = 100;
  const std::string svg = Draw(chart);
  EXPECT_TRUE(IsXml(svg));
  EXPECT_EQ(svg.find(">110</text>"), std::string::npos);
  EXPECT_NE(svg.find(">100</text>"), std::string::npos);
}

TEST(Charts, SayWhenThereIsNothingToShow) {
  const std::vector<std::string> empty = {
      Draw(LineChart{.heading = {"t"}}),
      Draw(LineChart{.heading = {"t"}, .series = {{.name = "a", .samples = {{1, NAN}}}}}),
      Draw(BarChart{.heading = {"t"}}),
      Draw(BarChart{.heading = {"t"}, .groups = {{"a", {kMissing}, {}}}}),
      Draw(Scatter{.heading = {"t"}}),
      Draw(IntervalChart{.heading = {"t"}}),
      Draw(IntervalChart{.heading = {"t"}, .rows = {{.name = "a"}}, .guide = 3}),
  };
  for (const std::string& svg : empty) {
    EXPECT_TRUE(IsXml(svg));
    EXPECT_NE(svg.find("No data to show."), std::string::npos);
  }
}

TEST(Charts, EscapeEveryWord) {
  const std::string x = kHostile;
  const std::vector<std::string> charts = {
      Draw(LineChart{.heading = {x, x},
                     .x = {.name = x},
                     .y = {.name = x},
                     .series = {{.name = x, .samples = {{0, 1}, {1, 2}}}, {.name = x}},
                     .across = {{1.5, x}},
                     .upright = {{.5, x}}}),
      Draw(BarChart{.heading = {x, x}, .value_name = x, .series = {x, x}, .groups = {{x, {1, 2}, {x, x}}}}),
      Draw(Scatter{.heading = {x, x}, .series = {x, x}, .marks = {{{1, 2}, x, 1, x}, {{3, 3}, x, 0, ""}}}),
  };
  for (const std::string& svg : charts) {
    EXPECT_TRUE(IsXml(svg));
    EXPECT_EQ(Count(svg, "</svg>"), 1);
    EXPECT_EQ(Count(svg, "<script"), 0);
  }
}

TEST(BarChart, HasABarForEachValue) {
  const BarChart chart{.heading = {"Times"},
                       .series = {"measured", "predicted"},
                       .groups = {{"separate", {2, 2.2}, {}}, {"merged", {1, kMissing}, {"1 s", ""}}}};
  const std::string svg = Draw(chart);
  EXPECT_TRUE(IsXml(svg));
  EXPECT_EQ(Count(svg, "<rect"), 3 + 2);  // and the legend's two
  EXPECT_NE(svg.find(">1 s</text>"), std::string::npos);
  EXPECT_NE(svg.find(">2.20</text>"), std::string::npos);
}

TEST(BarChart, ValuesBelowNoughtGoTheOtherWay) {
  const std::string svg = Draw(BarChart{.heading = {"Gains"}, .groups = {{"a", {-2}, {}}, {"b", {3}, {}}}});
  EXPECT_TRUE(IsXml(svg));
  EXPECT_EQ(Count(svg, "<rect"), 2);
  EXPECT_NE(svg.find("text-anchor=\"end\">-2</text>"), std::string::npos);
}

TEST(Charts, RefuseWhatDoesNotFitTogether) {
  EXPECT_THROW(Draw(BarChart{.heading = {"t"}, .series = {"a", "b"}, .groups = {{"g", {1}, {}}}}), Error);
  EXPECT_THROW(Draw(BarChart{.heading = {"t"}, .groups = {{"g", {1}, {"x", "y"}}}}), Error);
  EXPECT_THROW(Draw(Scatter{.heading = {"t"}, .marks = {{{1, 1}, "a", 3, ""}}}), Error);
}

TEST(Scatter, LabelsItsMarks) {
  const Scatter chart{.heading = {"Heads"},
                      .x = {.name = "symmetry", .low = -1, .high = 1},
                      .y = {.name = "rank"},
                      .marks = {{{.1, 3}, "0.0", 0, ""}, {{.99, 5}, "at the edge", 0, ""}, {{NAN, 1}, "gone", 0, ""}}};
  const std::string svg = Draw(chart);
  EXPECT_TRUE(IsXml(svg));
  EXPECT_EQ(Count(svg, "<circle"), 2);
  EXPECT_NE(svg.find("text-anchor=\"end\">at the edge</text>"), std::string::npos);
  EXPECT_EQ(svg.find("gone"), std::string::npos);
}

}  // namespace
}  // namespace qkv::report
