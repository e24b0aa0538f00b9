#include "qkv/report/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "qkv/core/error.h"
#include "qkv/report/text.h"

namespace qkv::report {
namespace {

constexpr double kAxisName = 26;  // space for the y axis's name above the plot
constexpr double kBottom = 44;    // space for ticks and the x axis's name

const std::string& HeadingDescription(const Heading& heading) {
  return heading.description.empty() ? heading.title : heading.description;
}

std::string Style(char kind, size_t series) { return fmt::format("{}{}", kind, series % 6); }

std::string Nothing(const Heading& heading, double width) {
  Svg svg(heading.title, HeadingDescription(heading));
  svg.Words({kMargin, 20}, heading.title, "title");
  svg.Words({kMargin, kTitle + 24}, "No data to show.", "muted");
  return svg.Finish(width, kTitle + 44);
}

// Width of the y axis's tick labels.
double LabelWidth(const Axis& axis) {
  double widest = 0;
  const auto ticks = axis.ticks.empty() ? RoundTicks(axis.low, axis.high, axis.log) : axis.ticks;
  for (const Tick& tick : ticks) widest = std::max(widest, EstimateTextWidth(tick.label));
  return kMargin + widest + 12;
}

void DrawGuides(Plot& plot, const std::vector<Guide>& across, const std::vector<Guide>& upright) {
  for (const Guide& guide : across) plot.Horizontal(guide.value, guide.words);
  for (const Guide& guide : upright) plot.Vertical(guide.value, guide.words);
}

bool Shown(const Axis& axis, double value) { return std::isfinite(value) && (!axis.log || value > 0); }

}  // namespace

std::string Draw(const LineChart& chart) {
  std::vector<double> xs, ys;
  for (const Series& series : chart.series) {
    for (const Sample& sample : series.samples) {
      if (!Shown(chart.x, sample.x) || !Shown(chart.y, sample.y)) continue;
      xs.push_back(sample.x);
      for (const double y : {sample.y, sample.low, sample.high}) ys.push_back(y);
    }
  }
  if (xs.empty()) return Nothing(chart.heading, chart.width);
  for (const Guide& guide : chart.across) ys.push_back(guide.value);
  const Axis x = Fit(chart.x, xs, true), y = Fit(chart.y, ys);

  Svg svg(chart.heading.title, HeadingDescription(chart.heading));
  svg.Words({kMargin, 20}, chart.heading.title, "title");
  double top = kTitle;
  if (chart.series.size() > 1) {
    std::vector<std::string> names;
    for (const Series& series : chart.series) names.push_back(series.name);
    top += Legend(svg, {kMargin, top}, chart.width, names) + 4;
  }
  top += chart.y.name.empty() ? 6 : kAxisName;
  const double left = LabelWidth(y);
  Plot plot(svg, {left, top}, chart.width - left - 2 * kMargin, chart.height, x, y);
  DrawGuides(plot, chart.across, chart.upright);
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const Series& series = chart.series[i];
    std::vector<Point> points;
    for (const Sample& sample : series.samples) {
      points.push_back({sample.x, sample.y});
      plot.Interval(sample.x, sample.low, sample.high, Style('s', i));
    }
    if (series.joined) plot.Curve(points, Style('s', i) + (series.dashed ? " dashed" : ""));
    for (const Point& point : points) {
      if (series.marks) {
        plot.Mark(point, Style('f', i), fmt::format("{}: {}, {}", series.name, Number(point.x), Number(point.y)),
                  series.joined ? 3.5 : 2.5);
      }
    }
  }
  return svg.Finish(chart.width, top + chart.height + kBottom);
}

std::string Draw(const BarChart& chart) {
  const size_t bars = std::max<size_t>(1, chart.series.size());
  double greatest = 0, least = 0, names = 0, labels = 0;
  bool any = false;
  for (const BarChart::Group& group : chart.groups) {
    Require(group.values.size() == bars, "bars \"{}\": expected {} values for \"{}\", got {}", chart.heading.title,
            bars, group.name, group.values.size());
    Require(group.labels.empty() || group.labels.size() == bars, "bars \"{}\": expected {} labels for \"{}\", got {}",
            chart.heading.title, bars, group.name, group.labels.size());
    names = std::max(names, EstimateTextWidth(group.name));
    for (size_t i = 0; i < bars; ++i) {
      if (!std::isfinite(group.values[i])) continue;
      any = true;
      greatest = std::max(greatest, group.values[i]), least = std::min(least, group.values[i]);
      labels = std::max(labels, EstimateTextWidth(group.labels.empty() ? Number(group.values[i]) : group.labels[i]));
    }
  }
  if (!any) return Nothing(chart.heading, chart.width);
  if (greatest == least) greatest = 1;

  Svg svg(chart.heading.title, HeadingDescription(chart.heading));
  svg.Words({kMargin, 20}, chart.heading.title, "title");
  double y = kTitle;
  if (!chart.value_name.empty()) {
    svg.Words({kMargin, y + 8}, chart.value_name, "small muted");
    y += 18;
  }
  if (bars > 1) y += Legend(svg, {kMargin, y}, chart.width, chart.series) + 4;
  constexpr double kBar = 16, kGap = 10;
  const double left = kMargin + names + 12;
  const double room = chart.width - left - kMargin - labels - 8 - (least < 0 ? labels + 8 : 0);
  const double scale = std::max(40.0, room) / (greatest - least);
  const double zero = left + (least < 0 ? labels + 8 : 0) - least * scale;
  const double first = y;
  for (const BarChart::Group& group : chart.groups) {
    const double height = kBar * static_cast<double>(bars);
    svg.Words({left - 10, y + height / 2 + 4}, group.name, "small", Anchor::kEnd);
    for (size_t i = 0; i < bars; ++i, y += kBar) {
      const double value = group.values[i];
      if (!std::isfinite(value)) continue;
      const double end = zero + value * scale;
      const std::string label = group.labels.empty() ? Number(value) : group.labels[i];
      svg.Rectangle(
          {std::min(zero, end), y + 1}, std::max(1.0, std::abs(end - zero)), kBar - 2, Style('f', i),
          fmt::format("{}{}{}: {}", group.name, bars > 1 ? ", " : "", bars > 1 ? chart.series[i] : "", label));
      svg.Words({value < 0 ? end - 5 : end + 5, y + kBar - 4}, label, "small",
                value < 0 ? Anchor::kEnd : Anchor::kStart);
    }
    y += kGap;
  }
  svg.Line({zero, first - 2}, {zero, y - kGap + 2}, "axis");
  return svg.Finish(chart.width, y + 2);
}

std::string Draw(const Scatter& chart) {
  const size_t count = std::max<size_t>(1, chart.series.size());
  std::vector<double> xs, ys;
  for (const Scatter::Mark& mark : chart.marks) {
    Require(mark.series < count, "scatter \"{}\": expected a series below {}, got {}", chart.heading.title, count,
            mark.series);
    if (!Shown(chart.x, mark.at.x) || !Shown(chart.y, mark.at.y)) continue;
    xs.push_back(mark.at.x), ys.push_back(mark.at.y);
  }
  if (xs.empty()) return Nothing(chart.heading, chart.width);
  for (const Guide& guide : chart.across) ys.push_back(guide.value);
  for (const Guide& guide : chart.upright) xs.push_back(guide.value);
  const Axis x = Fit(chart.x, xs), y = Fit(chart.y, ys);

  Svg svg(chart.heading.title, HeadingDescription(chart.heading));
  svg.Words({kMargin, 20}, chart.heading.title, "title");
  double top = kTitle;
  if (count > 1) top += Legend(svg, {kMargin, top}, chart.width, chart.series) + 4;
  top += chart.y.name.empty() ? 6 : kAxisName;
  const double left = LabelWidth(y), plot_width = chart.width - left - 2 * kMargin;
  Plot plot(svg, {left, top}, plot_width, chart.height, x, y);
  DrawGuides(plot, chart.across, chart.upright);
  for (const Scatter::Mark& mark : chart.marks) {
    plot.Mark(mark.at, Style('f', mark.series), mark.tip.empty() ? mark.label : mark.tip, 4);
  }
  for (const Scatter::Mark& mark : chart.marks) {
    // At the right edge, labels go to the left of their marks.
    const bool right = plot.At(mark.at).x + 7 + EstimateTextWidth(mark.label) > left + plot_width + kMargin;
    plot.Words(mark.at, mark.label, "small", right ? Anchor::kEnd : Anchor::kStart, {right ? -7.0 : 7.0, 4});
  }
  return svg.Finish(chart.width, top + chart.height + kBottom);
}

std::string Draw(const IntervalChart& chart) {
  constexpr double kRow = 34;
  std::vector<double> shown;
  double names = 0;
  for (const IntervalChart::Row& row : chart.rows) {
    names = std::max(names, EstimateTextWidth(row.name));
    for (const auto& [value, tip] : row.values) shown.push_back(value);
    for (const double x : {row.mean, row.mean - row.half, row.mean + row.half}) shown.push_back(x);
  }
  if (std::ranges::none_of(shown, [](double x) { return std::isfinite(x); })) {
    return Nothing(chart.heading, chart.width);
  }
  shown.push_back(chart.guide);
  const auto count = static_cast<double>(chart.rows.size());
  Axis down{.low = -0.5, .high = count - 0.5};
  for (size_t i = 0; i < chart.rows.size(); ++i) {
    down.ticks.push_back({count - 1 - static_cast<double>(i), chart.rows[i].name});
  }
  Svg svg(chart.heading.title, HeadingDescription(chart.heading));
  svg.Words({kMargin, 20}, chart.heading.title, "title");
  const double left = kMargin + names + 12;
  Axis across = Fit({.name = chart.value_name}, shown);
  if (across.low < chart.greatest) across.high = std::min(across.high, chart.greatest);
  Plot plot(svg, {left, kTitle + 6}, chart.width - left - 2 * kMargin, kRow * count, across, down);
  if (std::isfinite(chart.guide)) plot.Vertical(chart.guide, "");
  for (size_t i = 0; i < chart.rows.size(); ++i) {
    const IntervalChart::Row& row = chart.rows[i];
    const double y = down.ticks[i].value;
    if (std::isfinite(row.half)) {
      // The half of an interval may reach beyond what is possible.
      const Point ends[] = {{row.mean - row.half, y}, {std::min(row.mean + row.half, chart.greatest), y}};
      plot.Curve(ends, "s0");
    }
    if (std::isfinite(row.mean))
      plot.Mark({row.mean, y}, "f0", fmt::format("{}: {}", row.name, Number(row.mean, 4)), 5);
    for (const auto& [value, tip] : row.values) plot.Mark({value, y}, "f1", tip, 2.5);
  }
  return svg.Finish(chart.width, kTitle + 6 + kRow * count + kBottom);
}

}  // namespace qkv::report
