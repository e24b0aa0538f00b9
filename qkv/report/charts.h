// Chart types: each takes plain data and returns a complete SVG document, which can also be embedded in HTML.
// Non-finite values are gaps; a chart without any value shows a message instead. All throw Error if rows, names and
// values do not fit together.
#pragma once

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "qkv/report/plot.h"

namespace qkv::report {

inline constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

/// Pixels: around a chart, and the height of its title line.
inline constexpr double kMargin = 12, kTitle = 30;

/// Title and description of a chart.
struct Heading {
  std::string title;
  std::string description;  // one sentence for screen readers; the title if empty
};

/// A value with an optional interval.
struct Sample {
  double x = 0, y = 0;
  double low = kMissing, high = kMissing;
};

struct Series {
  std::string name;
  std::vector<Sample> samples;  // in the order of the joining line
  bool marks = true;
  bool joined = true;
  bool dashed = false;  // for predictions beside measurements
};

/// A reference line across the chart at this value.
struct Guide {
  double value = 0;
  std::string words;
};

struct LineChart {
  Heading heading;
  Axis x, y;
  std::vector<Series> series;  // six colours, repeated for more series
  std::vector<Guide> across, upright;
  double width = 620, height = 260;  // of the plot, in pixels
};
std::string Draw(const LineChart& chart);

/// Vertical bars: one group per name, one bar per series in it.
struct BarChart {
  Heading heading;
  std::string value_name;           // with its unit
  std::vector<std::string> series;  // names; may be empty for one series
  struct Group {
    std::string name;
    std::vector<double> values;       // one per series; kMissing: no bar
    std::vector<std::string> labels;  // labels at the bars' ends; empty: the values
  };
  std::vector<Group> groups;
  double width = 620;
};
std::string Draw(const BarChart& chart);

struct Scatter {
  Heading heading;
  Axis x, y;
  std::vector<std::string> series;  // names; may be empty for one series
  struct Mark {
    Point at;
    std::string label;  // beside it; may be empty
    size_t series = 0;
    std::string tip;  // tooltip
  };
  std::vector<Mark> marks;
  std::vector<Guide> across, upright;
  double width = 620, height = 300;
};
std::string Draw(const Scatter& chart);

/// Means with intervals and their individual values, one row per name from the top: a large mark with its interval, and
/// small marks.
struct IntervalChart {
  Heading heading;
  std::string value_name;  // with its unit
  struct Row {
    std::string name;
    double mean = kMissing, half = kMissing;             // mean ± half; no interval unless half is finite
    std::vector<std::pair<double, std::string>> values;  // each with its tooltip
  };
  std::vector<Row> rows;
  double guide = kMissing;                                    // a vertical line across all rows
  double greatest = std::numeric_limits<double>::infinity();  // of the values: where the axis ends at the latest
  double width = 620;
};
std::string Draw(const IntervalChart& chart);

}  // namespace qkv::report
