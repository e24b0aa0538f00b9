#include "qkv/app/training/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "qkv/report/plot.h"
#include "qkv/report/svg.h"

namespace qkv::app {
namespace {

using report::Axis;
using report::Point;

constexpr double kWidth = 720, kHeight = 200, kLeft = 64, kMargin = 12, kTitle = 30, kLegend = 24, kBetween = 72;

struct Line {
  std::string name;
  std::vector<Point> points;
};

// The values of `key` in the lines of this event, over their steps.
Line MakeLine(std::span<const io::Json> log, const char* event, const char* key, const std::string& name,
              double scale) {
  Line line{name, {}};
  for (const io::Json& entry : log) {
    if (entry.value("event", "") != event || !entry.contains(key) || !entry[key].is_number()) continue;
    line.points.push_back({entry.value("step", 0.0), scale * entry[key].get<double>()});
  }
  return line;
}

// Returns the top of the next plot. The axis of values ends at `greatest` at the latest.
double DrawPlot(report::Svg& svg, double top, const std::string& name, std::span<const Line> lines,
                double greatest = INFINITY) {
  std::vector<double> xs = {0}, ys;
  std::vector<std::string> names;
  for (const Line& line : lines) {
    names.push_back(line.name);
    for (const Point& point : line.points) xs.push_back(point.x), ys.push_back(point.y);
  }
  if (lines.size() > 1) top += report::Legend(svg, {kMargin, top}, kWidth, names);
  Axis values = report::Fit({.name = name}, ys);
  if (values.low < greatest) values.high = std::min(values.high, greatest);
  report::Plot plot(svg, {kLeft, top + kLegend}, kWidth - kLeft - 2 * kMargin, kHeight,
                    report::Fit({.name = "step"}, xs, /*tight=*/true), values);
  for (size_t i = 0; i < lines.size(); ++i) {
    plot.Curve(lines[i].points, fmt::format("s{}", i));
    if (lines[i].points.size() > 1) continue;
    for (const Point& point : lines[i].points) plot.Mark(point, fmt::format("f{}", i));
  }
  return top + kLegend + kHeight + kBetween;
}

}  // namespace

std::string DrawCurves(std::span<const io::Json> log, const std::string& title) {
  report::Svg svg(title, "Loss, accuracy and learning rate over the steps of a training run.");
  svg.Words({kMargin, 20}, title, "title");
  const Line losses[] = {MakeLine(log, "train", "loss", "training, as it was augmented", 1),
                         MakeLine(log, "evaluation", "loss", "validation", 1)};
  const Line accuracies[] = {MakeLine(log, "train", "accuracy", "training, as it was augmented", 100),
                             MakeLine(log, "evaluation", "top1", "validation", 100)};
  const Line rates[] = {MakeLine(log, "train", "learning_rate", "learning rate", 1)};
  double top = DrawPlot(svg, kTitle, "loss", losses);
  top = DrawPlot(svg, top, "accuracy, %", accuracies, 100);
  const Line bleu[] = {MakeLine(log, "evaluation", "bleu", "BLEU of the validation lines", 1)};
  if (!bleu[0].points.empty()) top = DrawPlot(svg, top, "BLEU", bleu, 100);
  top = DrawPlot(svg, top, "learning rate", rates);
  return svg.Finish(kWidth, top);
}

}  // namespace qkv::app
