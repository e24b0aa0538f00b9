// Regions traced with the planner, and on top the borders of notes 9 and 10.
#include "qkv/lab/plan_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "qkv/report/plot.h"
#include "qkv/report/svg.h"

namespace qkv::lab {
namespace {

using attention::Order;
using attention::Workload;
using report::Point;

constexpr double kTallest = 1.5;                 // E/D
constexpr double kLeast = 1.0 / 32, kMost = 32;  // N/D
constexpr double kWidth = 16384;                 // so large a D that N and E rounded to integers hardly differ
constexpr int kColumns = 160;

// The regions from below: the cheapest order as heads become wider.
constexpr Order kRegions[] = {Order::kProjected, Order::kAbsorbed, Order::kMerged};
constexpr const char* kStyles[] = {"f0 pale", "f2 pale", "f1 pale"};
constexpr const char* kMarks[] = {"f0", "f2", "f1"};

struct Place {
  std::string name;
  Point at;  // N/D, E/D
  report::Anchor anchor = report::Anchor::kStart;
  double lower = 0;  // pixels by which its label is moved down
};

// Number of rows that are read: all, or a multiple of the width.
struct Panel {
  std::string title;
  double rows_by_width = 0;  // 0: all
  std::vector<Place> places;
};

size_t CheapestAt(const Panel& panel, Point at) {
  Workload w;
  w.width = static_cast<int64_t>(kWidth);
  w.keys = std::max<int64_t>(1, std::llround(at.x * kWidth));
  w.queries = panel.rows_by_width > 0 ? std::llround(panel.rows_by_width * kWidth) : w.keys;
  w.queries = std::min(w.queries, w.keys);
  w.head_width = std::max<int64_t>(1, std::llround(at.y * kWidth));
  const Order cheapest = CheapestPlan(w, kRegions).scores;
  return static_cast<size_t>(std::find(std::begin(kRegions), std::end(kRegions), cheapest) - std::begin(kRegions));
}

// The E/D up to which no order of a higher region is cheapest.
double RegionTop(const Panel& panel, size_t region, double x) {
  double low = 0, high = kTallest;
  if (CheapestAt(panel, {x, high}) <= region) return high;
  for (int i = 0; i < 20; ++i) {
    const double middle = (low + high) / 2;
    (CheapestAt(panel, {x, middle}) <= region ? low : high) = middle;
  }
  return low;
}

double Column(int i) { return kLeast * std::pow(kMost / kLeast, static_cast<double>(i) / kColumns); }

void Draw(report::Svg& svg, Point corner, const Panel& panel) {
  const report::Axis x{.name = "tokens by width, N/D", .log = true, .low = kLeast, .high = kMost},
      y{.name = "width of a head by width, E/D", .low = 0, .high = kTallest};
  constexpr double kPlotWidth = 400, kPlotHeight = 330;
  report::Plot plot(svg, corner, kPlotWidth, kPlotHeight, x, y);
  svg.Words({corner.x, corner.y - 32}, panel.title, "title");
  std::vector<Point> bottom, top;
  for (int i = 0; i <= kColumns; ++i) bottom.push_back({Column(i), 0});
  for (size_t region = 0; region < std::size(kRegions); ++region) {
    top.clear();
    double area = 0;
    for (int i = 0; i <= kColumns; ++i) {
      top.push_back({Column(i), RegionTop(panel, region, Column(i))});
      area += top.back().y - bottom[static_cast<size_t>(i)].y;
    }
    std::vector<Point> corners = bottom;
    corners.insert(corners.end(), top.rbegin(), top.rend());
    if (area > 0) plot.Region(corners, kStyles[region], Name(kRegions[region]));
    bottom = top;
  }
  // The borders as formulas, drawn inside the map only.
  std::vector<Point> merging, absorbing;
  const double r = panel.rows_by_width;
  for (int i = 0; i <= kColumns; ++i) {
    const double n = Column(i);
    const double rows = r > 0 ? std::min(r, n) : n;
    // Pays against projecting, and against absorbing: m D² + m N D < 2 m D E + m N D.
    const double beside_projected = (rows + rows * n) / (rows + n + rows * n);
    merging.push_back({n, r > 0 ? std::max(0.5, std::min(beside_projected, 1.0)) : attention::MergingPaysAbove(n, 1)});
    if (r > 0 && n > rows) {
      const double e = rows * n / (n - rows + rows * n);  // m = N D E / (D E + N (D − E)), solved for E
      if (e < 0.5) absorbing.push_back({n, e}), merging.back().y = 0.5;
      if (e >= 0.5) merging.back().y = beside_projected;
    }
  }
  plot.Curve(merging, "s1");
  if (!absorbing.empty()) plot.Curve(absorbing, "s2");
  for (const Place& place : panel.places) {
    const size_t region = CheapestAt(panel, place.at);
    plot.Mark(place.at, kMarks[region], fmt::format("{}: {}", place.name, Name(kRegions[region])), 4);
    const double shift = place.anchor == report::Anchor::kEnd ? -8 : 8;
    plot.Words(place.at, place.name, "small", place.anchor, {shift, 4 + place.lower});
  }
}

Place Model(std::string name, double tokens, double width, double head_width, double lower = 0,
            report::Anchor anchor = report::Anchor::kStart) {
  return {std::move(name), {tokens / width, head_width / width}, anchor, lower};
}

}  // namespace

std::string BreakEvenMap(const Workload& shown) {
  using report::Anchor;
  constexpr double kFewRows = 32, kVitB = 768;
  Panel all{"All tokens are read",
            0,
            {Model("ViT-Ti", 197, 192, 64), Model("ViT-S", 197, 384, 64), Model("ViT-B", 197, 768, 64, -4),
             Model("ViT-L", 197, 1024, 64, 4, Anchor::kEnd), Model("one head as wide as ViT-B", 197, 768, 768),
             Model("2000×3000→4000", 2000, 3000, 4000)}};
  Panel few{"Few rows are read: m = D/24",
            kFewRows / kVitB,
            {Model("ViT-Ti, 8 rows", 197, 192, 64), Model("ViT-B, 32 rows", 197, 768, 64, -6),
             Model("one head as wide as ViT-B, 32 rows", 197, 768, 768),
             Model("MLA, 21 new tokens of 4096", 4096, 512, 128, 0, Anchor::kEnd)}};
  if (shown.width > 0) {
    Panel& panel = shown.queries == shown.keys ? all : few;
    const auto source = static_cast<double>(shown.source());
    if (&panel == &few) {
      few.places.clear();
      few.rows_by_width = static_cast<double>(shown.queries) / source;
      few.title = fmt::format("m = {} rows are read, m/D = {:.3g}", shown.queries, few.rows_by_width);
    }
    panel.places.push_back(
        Model("these shapes", static_cast<double>(shown.keys), source, static_cast<double>(shown.head_width)));
  }
  report::Svg svg("Which order of attention's products is cheapest",
                  "Regions over tokens by width and head width by width: projecting wins for narrow heads, absorbing "
                  "where few rows are read, merging beforehand for heads wider than half to all of the width.");
  constexpr double kLeft = 64, kTop = 112, kDistance = 500;
  svg.Words({16, 24}, "Which order of attention's products needs the fewest multiply-adds?", "title");
  const std::string names[] = {"projected: (X W_Q)(X W_K)ᵀ", "merged beforehand: X M Xᵀ",
                               "absorbed: ((X W_Q) W_Kᵀ) Xᵀ"};
  const char* squares[] = {"f0", "f1", "f2"};
  double at = 16;
  for (size_t i = 0; i < 3; ++i) {
    svg.Rectangle({at, 38}, 11, 11, squares[i]);
    svg.Words({at + 17, 48}, names[i], "small");
    at += 17 + report::EstimateTextWidth(names[i]) + 30;
  }
  Draw(svg, {kLeft, kTop}, all);
  Draw(svg, {kLeft + kDistance, kTop}, few);
  svg.Words(
      {16, kTop + 330 + 66},
      "Lines: E/D = (D + N)/(2D + N), above which merging pays for all tokens, and m = NDE/(DE + N(D − E)), below "
      "which absorbing pays.",
      "small muted");
  svg.Words({16, kTop + 330 + 82},
            "Counted for each head, whatever their number; weights merged beforehand. For MLA, D is the 512 of its "
            "latents.",
            "small muted");
  return svg.Finish(kLeft + kDistance + 424, kTop + 330 + 96);
}

}  // namespace qkv::lab
