// The ground of a chart: two axes with ticks at round numbers, and the way from values to pixels. Lines, marks and
// regions are drawn on it in values; what the ready charts of charts.h have not, others draw here.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/report/svg.h"

namespace qkv::report {

struct Tick {
  double value = 0;
  std::string label;
};

/// What an axis shows. An extent of low >= high is taken from the data.
struct Axis {
  std::string name;  // with its unit
  bool log = false;  // values that are not positive are not shown
  double low = 0, high = 0;
  std::vector<Tick> ticks;  // instead of round numbers
};

/// Between 3 and 9 round numbers in [low, high]: 1, 2 or 5 times a power of ten; on a logarithmic axis powers of ten,
/// with 2 and 5 between them where there are few. Throws Error unless low < high and both are finite, and positive if
/// `log`.
std::vector<Tick> RoundTicks(double low, double high, bool log);

/// `axis` with an extent that holds the values (those that are not finite, or on a logarithmic axis not positive, do
/// not count), from round number to round number or, where `tight`, from the least to the greatest. An axis that has
/// an extent keeps it. [0, 1], or [1, 10], where there is nothing to hold.
Axis Fit(Axis axis, std::span<const double> values, bool tight = false);

class Plot {
 public:
  /// Draws grid, ticks and names into the box of these pixels; ticks stand to its left and below it. The axes must have
  /// extents (Fit). `svg` must outlive the plot.
  Plot(Svg& svg, Point corner, double width, double height, const Axis& x, const Axis& y);

  /// Pixels. NaN for what the axis cannot show.
  Point At(Point value) const;
  bool Shows(Point value) const;  // finite, and inside of both extents

  /// A line through values, broken where one cannot be shown. `style` as Svg's, without "curve".
  void Curve(std::span<const Point> values, std::string_view style);
  /// A filled area; corners beyond the extents are moved to the edge.
  void Region(std::span<const Point> corners, std::string_view style, std::string_view tip = {});
  void Mark(Point value, std::string_view style, std::string_view tip = {}, double radius = 3.5);
  /// From low to high at x, with bars at its ends.
  void Interval(double x, double low, double high, std::string_view style);
  void Words(Point value, std::string_view words, std::string_view style = "small", Anchor anchor = Anchor::kStart,
             Point shift = {});
  /// Across the whole plot, with words at its end unless they are empty.
  void Horizontal(double y, std::string_view words, std::string_view style = "axis dashed");
  void Vertical(double x, std::string_view words, std::string_view style = "axis dashed");

  Svg& svg() { return svg_; }

 private:
  double Along(const Axis& axis, double value) const;  // 0 … 1
  Point Inside(Point value) const;

  Svg& svg_;
  Point corner_;
  double width_, height_;
  Axis x_, y_;
};

/// Names beside squares of their styles (f0, …), in as many lines as they need. Returns how high they are.
double Legend(Svg& svg, Point corner, double width, std::span<const std::string> names);

}  // namespace qkv::report
