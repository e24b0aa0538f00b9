// The ready charts: each takes plain data and returns a whole SVG document, which also stands well inside of HTML.
// Values that are NaN or infinite are gaps; a chart that is left with nothing to show says so in its place. All throw
// Error when rows, names and values do not fit together.
#pragma once

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "qkv/report/plot.h"

namespace qkv::report {

inline constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

/// What every chart has.
struct Heading {
  std::string title;
  std::string description;  // a sentence for those who cannot see the picture; the title if empty
};

/// A value with, if it is known, the interval it lies in.
struct Sample {
  double x = 0, y = 0;
  double low = kMissing, high = kMissing;
};

struct Series {
  std::string name;
  std::vector<Sample> samples;  // in the order in which they are joined
  bool marks = true;
  bool joined = true;
  bool dashed = false;  // for what was predicted, beside what was measured
};

/// A value worth a line across the whole chart.
struct Guide {
  double value = 0;
  std::string words;
};

struct LineChart {
  Heading heading;
  Axis x, y;
  std::vector<Series> series;  // at most six colours; more begin again
  std::vector<Guide> across, upright;
  double width = 620, height = 260;  // of the plot, in pixels
};
std::string Draw(const LineChart& chart);

/// Bars from left to right, one group a name and in it one bar a series.
struct BarChart {
  Heading heading;
  std::string value_name;           // with its unit
  std::vector<std::string> series;  // names; may be empty where there is one
  struct Group {
    std::string name;
    std::vector<double> values;       // one a series; kMissing: no bar
    std::vector<std::string> labels;  // what stands at the bars' ends; empty: the values
  };
  std::vector<Group> groups;
  double width = 620;
};
std::string Draw(const BarChart& chart);

struct Scatter {
  Heading heading;
  Axis x, y;
  std::vector<std::string> series;  // names; may be empty where there is one
  struct Mark {
    Point at;
    std::string label;  // beside it; may be empty
    size_t series = 0;
    std::string tip;  // when it is pointed at
  };
  std::vector<Mark> marks;
  std::vector<Guide> across, upright;
  double width = 620, height = 300;
};
std::string Draw(const Scatter& chart);

/// Means and what they are means of, one row a name from the top down: a large mark with its interval, small ones.
struct IntervalChart {
  Heading heading;
  std::string value_name;  // with its unit
  struct Row {
    std::string name;
    double mean = kMissing, half = kMissing;             // mean ± half; without a finite half no interval
    std::vector<std::pair<double, std::string>> values;  // with what is said when one is pointed at
  };
  std::vector<Row> rows;
  double guide = kMissing;  // an upright line across all rows
  double width = 620;
};
std::string Draw(const IntervalChart& chart);

}  // namespace qkv::report
