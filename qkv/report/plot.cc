#include "qkv/report/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "qkv/core/error.h"
#include "qkv/report/text.h"

namespace qkv::report {
namespace {

// Keeps rounding errors of summed steps from pushing a tick outside.
constexpr double kSlack = 1e-9;

std::string Superscript(int number) {
  constexpr std::string_view kRaised[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text;
  for (const char c : fmt::format("{}", number)) text += c == '-' ? "⁻" : kRaised[c - '0'];
  return text;
}

std::string TickLabel(double value) {
  if (value == 0) return "0";
  const double magnitude = std::abs(value);
  const double exponent = std::floor(std::log10(magnitude) + kSlack);
  if (magnitude >= 1e6 || magnitude < 1e-4) {
    const double digits = magnitude / std::pow(10, exponent);
    const std::string power = fmt::format("10{}", Superscript(static_cast<int>(exponent)));
    const std::string sign = value < 0 ? "−" : "";
    return sign + (std::abs(digits - 1) < 1e-6 ? power : fmt::format("{:.3g}·{}", digits, power));
  }
  const std::string sign = value < 0 ? "−" : "";
  if (magnitude >= 1e4) return sign + WithCommas(std::llround(magnitude));
  return sign + fmt::format("{:.5g}", magnitude);
}

// Rounds `step` up to 1, 2 or 5 times a power of ten.
double RoundStep(double step) {
  const double power = std::pow(10, std::floor(std::log10(step) + kSlack));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= step * (1 - kSlack)) return factor * power;
  }
  return 10 * power;
}

constexpr int kSteps = 5;  // of a linear axis, approximately

std::vector<Tick> LogTicks(double low, double high) {
  const double decades = std::log10(high / low);
  std::vector<double> factors = {1};
  if (decades < 3) factors = {1, 2, 5};
  const int every = std::max(1, static_cast<int>(std::ceil(decades / 8)));
  std::vector<Tick> ticks;
  for (int power = static_cast<int>(std::floor(std::log10(low))); power <= std::ceil(std::log10(high)); ++power) {
    if (power % every != 0) continue;
    for (const double factor : factors) {
      const double value = factor * std::pow(10.0, power);
      if (value >= low * (1 - kSlack) && value <= high * (1 + kSlack)) ticks.push_back({value, TickLabel(value)});
    }
  }
  return ticks;
}

}  // namespace

std::vector<Tick> RoundTicks(double low, double high, bool log) {
  Require(std::isfinite(low) && std::isfinite(high) && low < high && (!log || low > 0),
          "ticks: expected {}low < high, got {} and {}", log ? "0 < " : "", low, high);
  if (log) {
    std::vector<Tick> ticks = LogTicks(low, high);
    if (ticks.size() >= 3) return ticks;
  }
  std::vector<Tick> ticks;
  for (double step = RoundStep((high - low) / kSteps); ticks.size() < 3; step = RoundStep(step / 2.5)) {
    ticks.clear();
    for (double i = std::ceil(low / step - kSlack); i * step <= high + kSlack * step; ++i) {
      ticks.push_back({i * step, TickLabel(i == 0 ? 0 : i * step)});
    }
  }
  return ticks;
}

Axis Fit(Axis axis, std::span<const double> values, bool tight) {
  if (axis.low < axis.high) return axis;
  double low = INFINITY, high = -INFINITY;
  for (const double value : values) {
    if (!std::isfinite(value) || (axis.log && value <= 0)) continue;
    low = std::min(low, value), high = std::max(high, value);
  }
  if (low > high) {
    low = axis.log ? 1 : 0, high = axis.log ? 10 : 1;
  } else if (low == high) {
    if (axis.log) {
      low /= 2, high *= 2;
    } else {
      const double room = low == 0 ? 1 : std::abs(low) / 2;
      low -= room, high += room;
    }
  } else if (!tight && axis.log) {
    // Rounds to 1, 2 or 5 times a power of ten; beyond two decades, to a power of ten.
    const auto down = [&](double value) {
      const double power = std::pow(10, std::floor(std::log10(value) + kSlack));
      const double digits = value / power * (1 + kSlack);
      return power * (high / low > 100 ? 1 : digits >= 5 ? 5 : digits >= 2 ? 2 : 1);
    };
    const auto up = [&](double value) {
      if (high / low > 100) return std::pow(10, std::ceil(std::log10(value) - kSlack));
      return RoundStep(value);
    };
    const double new_high = up(high);
    low = down(low), high = new_high;
  } else if (!tight) {
    const double step = RoundStep((high - low) / kSteps);
    low = step * std::floor(low / step + kSlack), high = step * std::ceil(high / step - kSlack);
  }
  axis.low = low, axis.high = high;
  return axis;
}

Plot::Plot(Svg& svg, Point corner, double width, double height, const Axis& x, const Axis& y)
    : svg_(svg), corner_(corner), width_(width), height_(height), x_(x), y_(y) {
  for (Axis* axis : {&x_, &y_}) {
    if (axis->ticks.empty()) axis->ticks = RoundTicks(axis->low, axis->high, axis->log);
    Require(axis->low < axis->high, "axis \"{}\": expected low < high, got {} and {}", axis->name, axis->low,
            axis->high);
  }
  const double right = corner.x + width, bottom = corner.y + height;
  for (const Tick& tick : y_.ticks) {
    const double at = At({x_.low, tick.value}).y;
    if (!(at >= corner.y - .5 && at <= bottom + .5)) continue;
    svg.Line({corner.x, at}, {right, at}, "grid");
    svg.Words({corner.x - 7, at + 4}, tick.label, "small", Anchor::kEnd);
  }
  double taken = -INFINITY;  // end of the previous label
  for (const Tick& tick : x_.ticks) {
    const double at = At({tick.value, y_.low}).x;
    if (!(at >= corner.x - .5 && at <= right + .5)) continue;
    svg.Line({at, bottom}, {at, bottom + 4}, "axis");
    const double half = EstimateTextWidth(tick.label) / 2 + 4;
    if (at - half < taken) continue;
    taken = at + half;
    svg.Words({at, bottom + 17}, tick.label, "small", Anchor::kMiddle);
  }
  svg.Line({corner.x, bottom}, {right, bottom}, "axis");
  if (!x_.name.empty()) svg.Words({corner.x + width / 2, bottom + 35}, x_.name, "small muted", Anchor::kMiddle);
  if (!y_.name.empty()) svg.Words({corner.x - 7, corner.y - 9}, y_.name, "small muted");
}

double Plot::Along(const Axis& axis, double value) const {
  if (!std::isfinite(value)) return std::numeric_limits<double>::quiet_NaN();
  if (!axis.log) return (value - axis.low) / (axis.high - axis.low);
  if (value <= 0) return std::numeric_limits<double>::quiet_NaN();
  return std::log(value / axis.low) / std::log(axis.high / axis.low);
}

Point Plot::At(Point value) const {
  return {corner_.x + width_ * Along(x_, value.x), corner_.y + height_ * (1 - Along(y_, value.y))};
}

bool Plot::Shows(Point value) const {
  const double x = Along(x_, value.x), y = Along(y_, value.y);
  return x >= -kSlack && x <= 1 + kSlack && y >= -kSlack && y <= 1 + kSlack;
}

Point Plot::Inside(Point value) const {
  const auto clamp = [](double v, const Axis& axis) {
    if (std::isnan(v)) return axis.low;
    return std::clamp(v, axis.low, axis.high);
  };
  return At({clamp(value.x, x_), clamp(value.y, y_)});
}

void Plot::Curve(std::span<const Point> values, std::string_view style) {
  std::vector<Point> run;
  const auto draw = [&] {
    if (run.size() > 1) svg_.Curve(run, style);
    run.clear();
  };
  for (size_t i = 0; i < values.size(); ++i) {
    if (!Shows(values[i])) {
      draw();
    } else {
      run.push_back(At(values[i]));
    }
  }
  draw();
}

void Plot::Region(std::span<const Point> corners, std::string_view style, std::string_view tip) {
  std::vector<Point> pixels;
  for (const Point& corner : corners) pixels.push_back(Inside(corner));
  svg_.Polygon(pixels, style, tip);
}

void Plot::Mark(Point value, std::string_view style, std::string_view tip, double radius) {
  if (Shows(value)) svg_.Circle(At(value), radius, style, tip);
}

void Plot::Interval(double x, double low, double high, std::string_view style) {
  if (!Shows({x, x_.low == x_.high ? low : y_.low}) || !std::isfinite(low) || !std::isfinite(high)) return;
  const Point bottom = Inside({x, low}), top = Inside({x, high});
  svg_.Line(bottom, top, style);
  for (const Point& end : {bottom, top}) svg_.Line({end.x - 3, end.y}, {end.x + 3, end.y}, style);
}

void Plot::Words(Point value, std::string_view words, std::string_view style, Anchor anchor, Point shift) {
  if (!Shows(value)) return;
  const Point at = At(value);
  svg_.Words({at.x + shift.x, at.y + shift.y}, words, style, anchor);
}

void Plot::Horizontal(double y, std::string_view words, std::string_view style) {
  if (!Shows({x_.low, y})) return;
  const double at = At({x_.low, y}).y;
  svg_.Line({corner_.x, at}, {corner_.x + width_, at}, style);
  if (!words.empty()) svg_.Words({corner_.x + width_ - 4, at - 5}, words, "small muted", Anchor::kEnd);
}

void Plot::Vertical(double x, std::string_view words, std::string_view style) {
  if (!Shows({x, y_.low})) return;
  const double at = At({x, y_.low}).x;
  svg_.Line({at, corner_.y}, {at, corner_.y + height_}, style);
  if (!words.empty()) svg_.Words({at + 5, corner_.y + 12}, words, "small muted");
}

double Legend(Svg& svg, Point corner, double width, std::span<const std::string> names) {
  constexpr double kLine = 18;
  Point at = corner;
  for (size_t i = 0; i < names.size(); ++i) {
    const double needed = 16 + EstimateTextWidth(names[i]) + 18;
    if (at.x > corner.x && at.x + needed > corner.x + width) at = {corner.x, at.y + kLine};
    svg.Rectangle({at.x, at.y + 3}, 10, 10, fmt::format("f{}", i % 6));
    svg.Words({at.x + 15, at.y + 12}, names[i], "small");
    at.x += needed;
  }
  return names.empty() ? 0 : at.y + kLine - corner.y;
}

}  // namespace qkv::report
