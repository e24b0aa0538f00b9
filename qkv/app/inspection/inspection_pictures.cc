#include "qkv/app/inspection/inspection_pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>

#include "qkv/report/heatmap.h"

namespace qkv::app::heads {
namespace {

// A curve has at most this many points: pages of large models stay small.
constexpr size_t kCurvePoints = 33;

std::vector<std::string> Count(int64_t count) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) names.push_back(fmt::format("{}", i));
  return names;
}

}  // namespace

std::string SideBySide(const std::vector<std::string>& pictures) {
  std::string html = "<div style=\"display:flex;flex-wrap:wrap;gap:.5rem 1.5rem\">\n";
  for (const std::string& picture : pictures) html += "<div style=\"max-width:100%\">" + picture + "</div>\n";
  return html + "</div>\n";
}

std::string DrawHeatmap(const InspectedPart& part, const std::string& title, const Scale& scale, const Values& values) {
  return Draw(
      report::Heatmap{.heading = {title, title + " of every head, blocks downwards"},
                      .row_name = "block",
                      .column_name = "head",
                      .rows = Count(part.depth),
                      .columns = Count(part.heads_a_block),
                      .row_count = part.depth,
                      .column_count = part.heads_a_block,
                      .values = values,
                      .map = scale.map,
                      .low = scale.low,
                      .high = scale.high,
                      .value_name = scale.name,
                      .cell = std::clamp(std::floor(260 / static_cast<double>(part.heads_a_block)), 8.0, 40.0)});
}

Scale FromZero(const Values& values) {
  return {"share", image::ColourMap::kSequential, 0, std::max(0.01, values[Greatest(values)])};
}

std::string Spectra(const InspectedPart& part, const char* title, Circuit circuit) {
  constexpr int64_t kColumns = 4;
  constexpr double kWidth = 128, kHeight = 84, kTop = 44, kRight = 6;
  double least = 1;
  size_t width = 1;
  for (const inspect::HeadWeights& head : part.weights) {
    const std::vector<double>& s = (head.*circuit).singular_values;
    width = std::max(width, s.size());
    for (size_t i = 0; i < static_cast<size_t>((head.*circuit).rank); ++i) least = std::min(least, s[i] / s[0]);
  }
  const report::Axis x{.low = 1, .high = std::max(2.0, static_cast<double>(width))};
  const double low = std::max(1e-4, std::pow(10, std::floor(std::log10(least))));
  report::Axis y{.log = true, .low = std::min(low, 0.1), .high = 1};
  double left = 42;  // room for the labels
  for (double tick = 1; tick >= y.low * 0.99; tick /= 10) {
    y.ticks.push_back({tick, fmt::format("{:.1g}", tick)});
    left = std::max(left, report::EstimateTextWidth(y.ticks.back().label) + 16);
  }
  report::Svg svg(title, "Singular values of every head, one plot a block, on a logarithmic axis");
  svg.Words({12, 20}, title, "title");
  for (int64_t block = 0; block < part.depth; ++block) {
    const report::Point corner{left + static_cast<double>(block % kColumns) * (kWidth + left + kRight),
                               kTop + 12 + static_cast<double>(block / kColumns) * (kHeight + kTop + 8)};
    svg.Words({corner.x, corner.y - 8}, fmt::format("block {}", block), "small muted");
    report::Plot plot(svg, corner, kWidth, kHeight, x, y);
    for (int64_t h = 0; h < part.heads_a_block; ++h) {
      const std::vector<double>& s =
          (part.weights[static_cast<size_t>(block * part.heads_a_block + h)].*circuit).singular_values;
      std::vector<report::Point> points;
      for (size_t k = 0; k < std::min(kCurvePoints, s.size()) && s[0] > 0; ++k) {
        const size_t i = s.size() <= kCurvePoints ? k : k * (s.size() - 1) / (kCurvePoints - 1);
        points.push_back({static_cast<double>(i + 1), s[i] / s[0]});
      }
      plot.Curve(points, fmt::format("s{} thin", h % 6));
    }
  }
  const auto rows = static_cast<double>((part.depth + kColumns - 1) / kColumns);
  return svg.Finish(kColumns * (kWidth + left + kRight) + 10, kTop + rows * (kHeight + kTop + 8) - 4);
}

std::string Eigenvalues(const InspectedPart& part, size_t i, const std::string& what) {
  const std::vector<std::complex<double>>& eigenvalues = part.weights[i].qk.eigenvalues;
  const double greatest = eigenvalues.empty() ? 0 : std::abs(eigenvalues[0]);
  const std::vector<report::Tick> ticks = {{-1, "-1"}, {0, "0"}, {1, "1"}};
  report::Svg svg("Eigenvalues, " + what, "Eigenvalues of the QK circuit of " + HeadName(part, i));
  svg.Words({8, 20}, what, "title");
  svg.Words({8, 36}, fmt::format("{}: symmetry {}", HeadName(part, i), Signed(part.weights[i].qk.symmetry)),
            "small muted");
  report::Plot plot(svg, {30, 66}, 150, 150, {.name = "real", .low = -1.1, .high = 1.1, .ticks = ticks},
                    {.name = "imaginary", .low = -1.1, .high = 1.1, .ticks = ticks});
  plot.Vertical(0, ""), plot.Horizontal(0, "");
  for (const std::complex<double>& z : eigenvalues) {
    if (greatest > 0) plot.Mark({z.real() / greatest, z.imag() / greatest}, "f0", {}, 2.5);
  }
  return svg.Finish(204, 262);
}

std::string DrawScatter(const InspectedPart& part, const Values& x, const Values& y, const report::Axis& x_axis,
                        const report::Axis& y_axis, const std::string& title) {
  report::Scatter scatter{.heading = {title, title + ", a mark for every head"}, .x = x_axis, .y = y_axis};
  scatter.series = {"first third of the blocks", "middle third", "last third"};
  for (size_t i = 0; i < part.heads(); ++i) {
    const auto third = static_cast<size_t>(3 * part.block(i) / part.depth);
    scatter.marks.push_back({.at = {x[i], y[i]}, .series = third, .tip = HeadName(part, i)});
  }
  return Draw(scatter);
}

}  // namespace qkv::app::heads
