// The plot area of a chart: two axes with ticks at round numbers, and the mapping from values to pixels. Lines, marks
// and regions are drawn in data coordinates. charts.h builds on it; use it directly for other charts.
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

/// An axis. If low >= high, the extent is taken from the data.
struct Axis {
  std::string name;  // with its unit
  bool log = false;  // non-positive values are not shown
  double low = 0, high = 0;
  std::vector<Tick> ticks;  // replace the round numbers
};

/// Returns 3 to 9 round numbers in [low, high]: 1, 2 or 5 times a power of ten; on a logarithmic axis powers of ten,
/// with 2 and 5 between them if there are few. Throws Error unless low < high and both are finite, and positive if
/// `log`.
std::vector<Tick> RoundTicks(double low, double high, bool log);

/// Returns `axis` with an extent that covers the values, ignoring non-finite and, on a logarithmic axis, non-positive
/// ones. The extent ends at round numbers or, if `tight`, at the least and the greatest value. An axis that has an
/// extent keeps it. Without values: [0, 1], or [1, 10].
Axis Fit(Axis axis, std::span<const double> values, bool tight = false);

class Plot {
 public:
  /// Draws grid, ticks and names in this box, in pixels; tick labels are to its left and below. The axes must have
  /// extents (Fit). `svg` must outlive the plot.
  Plot(Svg& svg, Point corner, double width, double height, const Axis& x, const Axis& y);

  /// Pixel coordinates; NaN for values that the axis cannot show.
  Point At(Point value) const;
  bool Shows(Point value) const;  // finite, and within both extents

  /// Draws a line through values, with gaps at those that cannot be shown. `style` as in Svg, without "curve".
  void Curve(std::span<const Point> values, std::string_view style);
  /// Draws a filled area; corners outside the extents are clamped to the edge.
  void Region(std::span<const Point> corners, std::string_view style, std::string_view tip = {});
  void Mark(Point value, std::string_view style, std::string_view tip = {}, double radius = 3.5);
  /// Draws an error bar from low to high at x.
  void Interval(double x, double low, double high, std::string_view style);
  void Words(Point value, std::string_view words, std::string_view style = "small", Anchor anchor = Anchor::kStart,
             Point shift = {});
  /// Draws a line across the whole plot, with `words` at its end unless empty.
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

/// Draws names beside squares in their styles (f0, …), wrapped to `width`. Returns the height.
double Legend(Svg& svg, Point corner, double width, std::span<const std::string> names);

}  // namespace qkv::report
