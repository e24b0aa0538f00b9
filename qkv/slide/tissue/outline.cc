#include "qkv/slide/tissue/outline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <utility>

#include "qkv/core/work.h"

namespace qkv::slide {
namespace {

using Corner = std::array<int64_t, 2>;  // of pixels: x, y

// A closed line along edges of pixels, the inside to its right, with its corners only.
struct Outline {
  std::vector<Corner> corners;
  bool exact = false;  // all corners are kept
  Ring points;         // scaled
};

// Points between two that are always kept: the time of the rule that leaves others out is up to quadratic in these.
constexpr size_t kMostPart = 1024;
// In half pixels: how far points may lie from the simplified line.
constexpr double kTolerance = 1;
// Pieces and holes of fewer pixels stay as they are.
constexpr double kExactArea = 16;

double AreaOf(const std::vector<Corner>& corners) {
  double twice = 0;
  for (size_t i = 0; i < corners.size(); ++i) {
    const Corner &a = corners[i], &b = corners[(i + 1) % corners.size()];
    twice += static_cast<double>(a[0] * b[1] - b[0] * a[1]);
  }
  return twice / 2;
}

// Walks along the edges from the upper edge of pixel (x, y) to the right, which has an outside pixel above.
std::vector<Corner> Walk(const Mask& mask, int64_t x, int64_t y, std::vector<uint8_t>& walked) {
  std::vector<Corner> corners;
  const Corner start{x, y};
  Corner at = start;
  int heading = 0;  // right, down, left, up
  constexpr std::array<Corner, 4> kAhead{{{1, 0}, {0, 1}, {-1, 0}, {0, -1}}};
  // The pixel ahead on the right, and on the left, seen from a corner with each heading.
  constexpr std::array<Corner, 4> kRight{{{0, 0}, {-1, 0}, {-1, -1}, {0, -1}}},
      kLeft{{{0, -1}, {0, 0}, {-1, 0}, {-1, -1}}};
  do {
    Spend(1);
    if (heading == 0) walked[static_cast<size_t>(at[1] * mask.width + at[0])] = 1;
    at = {at[0] + kAhead[heading][0], at[1] + kAhead[heading][1]};
    int next = heading;
    if (!mask.At(at[0] + kRight[heading][0], at[1] + kRight[heading][1])) {
      next = (heading + 1) % 4;
    } else if (mask.At(at[0] + kLeft[heading][0], at[1] + kLeft[heading][1])) {
      next = (heading + 3) % 4;
    }
    if (next != heading) corners.push_back(at);
    heading = next;
  } while (at != start || heading != 0);
  return corners;
}

double Distance(const Corner& point, const Corner& a, const Corner& b) {
  const double dx = static_cast<double>(b[0] - a[0]), dy = static_cast<double>(b[1] - a[1]);
  const double px = static_cast<double>(point[0] - a[0]), py = static_cast<double>(point[1] - a[1]);
  const double length = dx * dx + dy * dy;
  const double along = length > 0 ? std::clamp((px * dx + py * dy) / length, 0.0, 1.0) : 0;
  return std::hypot(px - along * dx, py - along * dy);
}

// Marks the points between first and last that Douglas and Peucker's rule keeps. Without recursion: rings are long.
void KeepFar(const std::vector<Corner>& points, size_t first, size_t last, std::vector<uint8_t>& kept) {
  std::vector<std::pair<size_t, size_t>> parts{{first, last}};
  while (!parts.empty()) {
    const auto [a, b] = parts.back();
    parts.pop_back();
    Spend(static_cast<int64_t>(b - a) * 4);
    double furthest = kTolerance;
    size_t found = 0;
    for (size_t i = a + 1; i < b; ++i) {
      const double distance = Distance(points[i], points[a], points[b % points.size()]);
      if (distance > furthest) furthest = distance, found = i;
    }
    if (found == 0) continue;
    kept[found] = 1;
    parts.emplace_back(a, found);
    parts.emplace_back(found, b);
  }
}

// Coordinates of pixels as large as these are rounded to whole ones of level 0.
constexpr double kRoundedScale = 2;

Point Scaled(const Corner& at, double x_scale, double y_scale) {
  const auto scaled = [](int64_t half_pixels, double scale) {
    const double value = static_cast<double>(half_pixels) / 2 * scale;
    return scale >= kRoundedScale ? std::round(value) : value;
  };
  return {scaled(at[0], x_scale), scaled(at[1], y_scale)};
}

// The line through the middles of the outline's straight runs, in half pixels: steps of slanted borders become
// straight. Corners between runs of two pixels or more stay. No corner is further than half a pixel from it.
std::vector<Corner> WithoutSteps(const std::vector<Corner>& corners) {
  std::vector<Corner> points;
  for (size_t i = 0; i < corners.size(); ++i) {
    const Corner &a = corners[i], &b = corners[(i + 1) % corners.size()], &c = corners[(i + 2) % corners.size()];
    const auto length = [](const Corner& from, const Corner& to) {
      return std::abs(to[0] - from[0]) + std::abs(to[1] - from[1]);
    };
    points.push_back({a[0] + b[0], a[1] + b[1]});
    if (length(a, b) >= 2 && length(b, c) >= 2) points.push_back({2 * b[0], 2 * b[1]});
  }
  return points;
}

// Douglas and Peucker's rule on a closed line, from its leftmost point and from the one furthest from it.
std::vector<Corner> Simplified(std::vector<Corner> points) {
  std::rotate(points.begin(), std::min_element(points.begin(), points.end()), points.end());
  size_t furthest = 0;
  for (size_t i = 1; i < points.size(); ++i) {
    if (Distance(points[i], points[0], points[0]) > Distance(points[furthest], points[0], points[0])) furthest = i;
  }
  std::vector<uint8_t> kept(points.size(), 0);
  for (size_t first = 0; first < points.size();) {
    const size_t last = std::min(first < furthest ? furthest : points.size(), first + kMostPart);
    kept[first] = 1;
    KeepFar(points, first, last, kept);
    first = last;
  }
  std::vector<Corner> found;
  for (size_t i = 0; i < points.size(); ++i) {
    if (kept[i]) found.push_back(points[i]);
  }
  return found;
}

void SetPoints(Outline& outline, double x_scale, double y_scale) {
  outline.points.clear();
  if (outline.exact) {
    for (const auto& [x, y] : outline.corners) outline.points.push_back(Scaled({2 * x, 2 * y}, x_scale, y_scale));
  } else {
    for (const Corner& point : Simplified(WithoutSteps(outline.corners))) {
      outline.points.push_back(Scaled(point, x_scale, y_scale));
    }
  }
}

// Twice the signed area of a triangle.
double Turn(const Point& a, const Point& b, const Point& c) {
  return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
}

struct Segment {
  Point a, b;
  size_t ring = 0, index = 0;
  double left() const { return std::min(a[0], b[0]); }
  double right() const { return std::max(a[0], b[0]); }
  double top() const { return std::min(a[1], b[1]); }
  double bottom() const { return std::max(a[1], b[1]); }
};

bool Meet(const Segment& s, const Segment& t) {
  if (s.bottom() < t.top() || t.bottom() < s.top() || s.right() < t.left() || t.right() < s.left()) return false;
  const double ta = Turn(s.a, s.b, t.a), tb = Turn(s.a, s.b, t.b);
  const double sa = Turn(t.a, t.b, s.a), sb = Turn(t.a, t.b, s.b);
  return !((ta > 0 && tb > 0) || (ta < 0 && tb < 0) || (sa > 0 && sb > 0) || (sa < 0 && sb < 0));
}

// Neighbours share their end; they meet elsewhere only if one turns back upon the other.
bool TurnsBack(const Segment& s, const Segment& t) {
  const Point &before = s.b == t.a ? s.a : s.b, &shared = s.b == t.a ? s.b : s.a, &after = s.b == t.a ? t.b : t.a;
  const double along =
      (before[0] - shared[0]) * (after[0] - shared[0]) + (before[1] - shared[1]) * (after[1] - shared[1]);
  return Turn(before, shared, after) == 0 && along > 0;
}

// Rings that touch or cross themselves or others.
std::vector<size_t> BadRings(const std::vector<Outline>& outlines) {
  std::vector<Segment> segments;
  std::vector<uint8_t> bad(outlines.size(), 0);
  for (size_t r = 0; r < outlines.size(); ++r) {
    const Ring& points = outlines[r].points;
    bad[r] = points.size() < 3;
    for (size_t i = 0; i < points.size(); ++i) segments.push_back({points[i], points[(i + 1) % points.size()], r, i});
  }
  std::sort(segments.begin(), segments.end(), [](const Segment& s, const Segment& t) { return s.left() < t.left(); });
  for (size_t i = 0; i < segments.size(); ++i) {
    const Segment& s = segments[i];
    for (size_t j = i + 1; j < segments.size() && segments[j].left() <= s.right(); ++j) {
      Spend(1);
      const Segment& t = segments[j];
      const size_t points = outlines[s.ring].points.size();
      const bool neighbours =
          s.ring == t.ring && ((s.index + 1) % points == t.index || (t.index + 1) % points == s.index);
      if (neighbours ? points > 3 && TurnsBack(s, t) : Meet(s, t)) bad[s.ring] = bad[t.ring] = 1;
    }
  }
  std::vector<size_t> found;
  for (size_t r = 0; r < bad.size(); ++r) {
    if (bad[r] && !outlines[r].exact) found.push_back(r);
  }
  return found;
}

std::vector<Outline> AllOutlines(const Mask& mask) {
  std::vector<Outline> outlines;
  std::vector<uint8_t> walked(mask.inside.size(), 0);
  for (int64_t y = 0; y < mask.height; ++y) {
    Spend(mask.width);
    for (int64_t x = 0; x < mask.width; ++x) {
      if (!mask.At(x, y) || mask.At(x, y - 1) || walked[static_cast<size_t>(y * mask.width + x)]) continue;
      outlines.emplace_back().corners = Walk(mask, x, y, walked);
    }
  }
  return outlines;
}

// For each outline of a hole the outline around it, for others their own index: the first outline to the left of what
// lies above the hole is either around it or a hole beside it.
std::vector<size_t> OutlinesAround(const Mask& mask, const std::vector<Outline>& outlines) {
  std::vector<uint32_t> of_edge(static_cast<size_t>((mask.width + 1) * mask.height));  // [height, width + 1], upright
  std::vector<size_t> around(outlines.size());
  std::vector<std::pair<Corner, size_t>> holes;  // y, x of the first of the upper corners; index
  for (size_t r = 0; r < outlines.size(); ++r) {
    around[r] = r;
    const std::vector<Corner>& corners = outlines[r].corners;
    Corner top{mask.height, mask.width};
    for (size_t i = 0; i < corners.size(); ++i) {
      const Corner &a = corners[i], &b = corners[(i + 1) % corners.size()];
      top = std::min(top, {a[1], a[0]});
      if (a[0] != b[0]) continue;
      Spend(std::abs(b[1] - a[1]));
      for (int64_t y = std::min(a[1], b[1]); y < std::max(a[1], b[1]); ++y) {
        of_edge[static_cast<size_t>(y * (mask.width + 1) + a[0])] = static_cast<uint32_t>(r);
      }
    }
    if (AreaOf(corners) < 0) holes.emplace_back(top, r);
  }
  // A hole beside begins above, so it is resolved before.
  std::sort(holes.begin(), holes.end());
  for (const auto& [top, r] : holes) {
    const int64_t y = top[0] - 1;
    int64_t x = top[1];
    while (mask.At(x - 1, y)) Spend(1), --x;
    around[r] = around[of_edge[static_cast<size_t>(y * (mask.width + 1) + x)]];
  }
  return around;
}

}  // namespace

std::vector<Polygon> Outlines(const Mask& mask, double x_scale, double y_scale) {
  std::vector<Outline> outlines = AllOutlines(mask);
  for (Outline& outline : outlines) {
    outline.exact = std::abs(AreaOf(outline.corners)) < kExactArea;
    SetPoints(outline, x_scale, y_scale);
  }
  for (std::vector<size_t> bad = BadRings(outlines); !bad.empty(); bad = BadRings(outlines)) {
    for (const size_t r : bad) {
      outlines[r].exact = true;
      SetPoints(outlines[r], x_scale, y_scale);
    }
  }
  const std::vector<size_t> around = OutlinesAround(mask, outlines);
  std::vector<Polygon> polygons;
  std::map<size_t, size_t> polygon_of;
  for (size_t r = 0; r < outlines.size(); ++r) {
    if (around[r] != r) continue;
    polygon_of[r] = polygons.size();
    polygons.emplace_back().outer = std::move(outlines[r].points);
  }
  for (size_t r = 0; r < outlines.size(); ++r) {
    if (around[r] != r) polygons[polygon_of.at(around[r])].holes.push_back(std::move(outlines[r].points));
  }
  return polygons;
}

}  // namespace qkv::slide
