#include "qkv/report/heatmap.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "qkv/core/error.h"
#include "tests/report/xml.h"

namespace qkv::report {
namespace {

Heatmap Small() {
  return {.heading = {"Attention"},
          .row_name = "query",
          .column_name = "key",
          .rows = {"a", "b"},
          .columns = {"x", "y", "z"},
          .row_count = 2,
          .column_count = 3,
          .values = {0, .25, .5, .75, 1, kMissing},
          .value_name = "weight",
          .numbers = true};
}

constexpr int kLegendCells = 48;

TEST(Heatmap, ColoursEachCell) {
  const std::string svg = Draw(Small());
  EXPECT_TRUE(IsXml(svg));
  EXPECT_EQ(Count(svg, "<rect"), 5 + kLegendCells);
  using image::ColourAt, image::ColourMap, image::Hex;
  EXPECT_NE(svg.find(Hex(ColourAt(ColourMap::kSequential, .25)) + "\"><title>a, y: 0.250</title>"), std::string::npos);
  EXPECT_NE(svg.find(">0.75</text>"), std::string::npos);
  EXPECT_EQ(svg.find("b, z"), std::string::npos) << "an empty cell";
}

TEST(Heatmap, NoughtIsTheMiddleOfADivergingMap) {
  Heatmap chart = Small();
  chart.map = image::ColourMap::kDiverging;
  chart.values = {0, 1, 2, 3, 4, -1};
  const std::string svg = Draw(chart);
  const std::string middle = image::Hex(image::ColourAt(image::ColourMap::kDiverging, .5));
  EXPECT_NE(svg.find(middle + "\"><title>a, x: 0</title>"), std::string::npos);
  EXPECT_NE(svg.find(">-4</text>"), std::string::npos);
}

TEST(Heatmap, OfManyCellsNamesSomeRows) {
  Heatmap chart{.heading = {"Large"}, .row_count = 200, .column_count = 200};
  chart.values.assign(200 * 200, .5);
  for (int i = 0; i < 200; ++i) chart.rows.push_back(fmt::format("r{}", i));
  const std::string svg = Draw(chart);
  EXPECT_TRUE(IsXml(svg));
  EXPECT_NE(svg.find(">r0</text>"), std::string::npos);
  EXPECT_EQ(svg.find(">r1</text>"), std::string::npos);
}

TEST(Heatmap, NamesWiderThanColumnsStandUpright) {
  Heatmap chart{.heading = {"Wide"}, .row_count = 1, .column_count = 20};
  chart.values.assign(20, .5);
  for (int i = 0; i < 20; ++i) chart.columns.push_back(fmt::format("a long name {}", i));
  const std::string svg = Draw(chart);
  EXPECT_TRUE(IsXml(svg));
  EXPECT_EQ(Count(svg, "rotate(-90)"), 20);
  for (const std::string& name : chart.columns) EXPECT_NE(svg.find(">" + name + "</text>"), std::string::npos) << name;
  EXPECT_EQ(Count(Draw(Small()), "rotate(-90)"), 1) << "the name of the rows";
}

TEST(Heatmap, OddValuesAndNone) {
  Heatmap same = Small(), none = Small(), empty{.heading = {"t"}};
  same.values.assign(6, 3);
  none.values.assign(6, NAN);
  EXPECT_TRUE(IsXml(Draw(same)));
  for (const Heatmap& chart : {none, empty}) EXPECT_NE(Draw(chart).find("No data to show."), std::string::npos);
}

TEST(Heatmap, EscapesAndRefuses) {
  Heatmap chart = Small();
  chart.heading = {"<&>", "\"<&>\""};
  chart.row_name = chart.column_name = chart.value_name = chart.rows[0] = chart.columns[0] = "<&\"'>";
  EXPECT_TRUE(IsXml(Draw(chart)));
  chart.values.pop_back();
  EXPECT_THROW(Draw(chart), Error);
  chart = Small();
  chart.rows.pop_back();
  EXPECT_THROW(Draw(chart), Error);
}

}  // namespace
}  // namespace qkv::report
