#include "qkv/report/heatmap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "qkv/core/error.h"
#include "qkv/report/text.h"

namespace qkv::report {
namespace {

constexpr double kLegend = 46;
constexpr int kLegendSteps = 48;
// Height of a line of names.
constexpr double kLine = 13;

void Check(const Heatmap& chart) {
  Require(chart.row_count >= 0 && chart.column_count >= 0 &&
              chart.values.size() == static_cast<size_t>(chart.row_count * chart.column_count),
          "heatmap \"{}\": expected {}x{} values, got {}", chart.heading.title, chart.row_count, chart.column_count,
          chart.values.size());
  const auto names = [&](const char* what, const std::vector<std::string>& given, int64_t count) {
    Require(given.empty() || static_cast<int64_t>(given.size()) == count,
            "heatmap \"{}\": expected {} names of {}, got {}", chart.heading.title, count, what, given.size());
  };
  names("rows", chart.rows, chart.row_count), names("columns", chart.columns, chart.column_count);
}

double Widest(const std::vector<std::string>& names) {
  double widest = 0;
  for (const std::string& name : names) widest = std::max(widest, EstimateTextWidth(name));
  return widest;
}

// Black or white, whichever contrasts more with the colour (ITU-R BT.709 luma).
std::string_view ContrastingInk(const image::Colour& colour) {
  return 0.2126 * colour[0] + 0.7152 * colour[1] + 0.0722 * colour[2] > 140 ? "#1f2328" : "#ffffff";
}

void DrawLegend(Svg& svg, Point corner, const Heatmap& chart, double low, double high) {
  constexpr double kStep = 3, kHeight = 10;
  for (int i = 0; i < kLegendSteps; ++i) {
    const double x = static_cast<double>(i) / (kLegendSteps - 1);
    // Slightly wider, so that no gap shows between cells.
    svg.Cell({corner.x + i * kStep, corner.y}, kStep + .5, kHeight, image::Hex(image::ColourAt(chart.map, x)));
  }
  svg.Words({corner.x, corner.y + kHeight + 13}, Number(low), "small");
  svg.Words({corner.x + kLegendSteps * kStep, corner.y + kHeight + 13}, Number(high), "small", Anchor::kEnd);
  svg.Words({corner.x + kLegendSteps * kStep + 10, corner.y + kHeight - 1}, chart.value_name, "small muted");
}

}  // namespace

std::string Draw(const Heatmap& chart) {
  Check(chart);
  double low = INFINITY, high = -INFINITY;
  for (const double value : chart.values) {
    if (std::isfinite(value)) low = std::min(low, value), high = std::max(high, value);
  }
  Svg svg(chart.heading.title, chart.heading.description.empty() ? chart.heading.title : chart.heading.description);
  svg.Words({kMargin, 20}, chart.heading.title, "title");
  if (low > high) {
    svg.Words({kMargin, kTitle + 24}, "No data to show.", "muted");
    return svg.Finish(420, kTitle + 44);
  }
  if (chart.map == image::ColourMap::kDiverging) {  // zero is in the middle
    high = std::max(std::abs(low), std::abs(high)), low = -high;
  }
  if (chart.low < chart.high) low = chart.low, high = chart.high;
  if (low == high) high = low + 1;

  const auto most = static_cast<double>(std::max(chart.row_count, chart.column_count));
  const double side =
      chart.cell > 0 ? chart.cell : std::clamp(std::floor(420 / most), 3.0, chart.numbers ? 64.0 : 40.0);
  const double left = kMargin + (chart.row_name.empty() ? 0 : 18) + (chart.rows.empty() ? 0 : Widest(chart.rows) + 8);
  // Names that are wider than their columns stand upright, and are left out only if even lines of text overlap.
  const double widest = Widest(chart.columns);
  const bool upright = widest + 4 > side && side >= kLine;
  const double column_names = chart.columns.empty() ? 4 : upright ? widest + 12 : 18;
  const double top = kTitle + (chart.column_name.empty() ? 0 : 18) + column_names;
  const double width = side * static_cast<double>(chart.column_count);
  const double height = side * static_cast<double>(chart.row_count);
  if (!chart.column_name.empty()) {
    svg.Words({left + width / 2, kTitle + 10}, chart.column_name, "small muted", Anchor::kMiddle);
  }
  if (!chart.row_name.empty()) svg.VerticalWords({kMargin + 9, top + height / 2}, chart.row_name, "small muted");
  // Only as many names as fit.
  const int64_t every_row = chart.rows.empty() ? 1 : static_cast<int64_t>(std::ceil(kLine / side));
  for (int64_t i = 0; i < static_cast<int64_t>(chart.rows.size()); i += every_row) {
    svg.Words({left - 6, top + side * (static_cast<double>(i) + .5) + 4}, chart.rows[static_cast<size_t>(i)], "small",
              Anchor::kEnd);
  }
  const int64_t every_column = upright ? 1 : static_cast<int64_t>(std::ceil((widest + 4) / side));
  for (int64_t j = 0; j < static_cast<int64_t>(chart.columns.size()); j += every_column) {
    const double middle = left + side * (static_cast<double>(j) + .5);
    const std::string& name = chart.columns[static_cast<size_t>(j)];
    if (upright) {
      svg.VerticalWords({middle + 4, top - 6}, name, "small", Anchor::kStart);
    } else {
      svg.Words({middle, top - 6}, name, "small", Anchor::kMiddle);
    }
  }
  for (int64_t i = 0; i < chart.row_count; ++i) {
    for (int64_t j = 0; j < chart.column_count; ++j) {
      const double value = chart.values[static_cast<size_t>(i * chart.column_count + j)];
      if (!std::isfinite(value)) continue;
      const image::Colour colour = image::ColourAt(chart.map, (value - low) / (high - low));
      const Point corner = {left + side * static_cast<double>(j), top + side * static_cast<double>(i)};
      const auto name = [](const std::vector<std::string>& names, int64_t k) {
        return names.empty() ? fmt::format("{}", k) : names[static_cast<size_t>(k)];
      };
      const double gap = side >= 12 ? 1 : 0;
      svg.Cell(corner, side - gap, side - gap, image::Hex(colour),
               fmt::format("{}, {}: {}", name(chart.rows, i), name(chart.columns, j), Number(value)));
      if (chart.numbers) {
        svg.Words({corner.x + side / 2, corner.y + side / 2 + 4}, Number(value, 2),
                  ContrastingInk(colour) == "#ffffff" ? "small on-dark" : "small on-light", Anchor::kMiddle);
      }
    }
  }
  DrawLegend(svg, {left, top + height + 12}, chart, low, high);
  const double legend = 3.0 * kLegendSteps + 10 + EstimateTextWidth(chart.value_name);
  const double wide = std::max({left + width, left + legend, kMargin + EstimateTextWidth(chart.heading.title, 14)});
  return svg.Finish(wide + kMargin, top + height + kLegend);
}

}  // namespace qkv::report
