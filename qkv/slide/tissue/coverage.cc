#include "qkv/slide/tissue/coverage.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "qkv/core/work.h"

namespace qkv::slide {
namespace {

// The order of edges is taken this share of a slab below its top, where edges that begin in one point differ.
constexpr double kProbe = 1e-6;
// Pixels by which edges must change places to count as crossing: less is rounding.
constexpr double kCrossing = 1e-7;

}  // namespace

double Coverage::Edge::At(double y) const {
  if (y <= upper[1]) return upper[0];
  if (y >= lower[1]) return lower[0];
  return upper[0] + (lower[0] - upper[0]) * ((y - upper[1]) / (lower[1] - upper[1]));
}

Coverage::Coverage(const Tissue& tissue) : inside_(tissue.polygons.size()) {
  const auto add = [&](const Ring& ring, size_t polygon) {
    for (size_t i = 0; i < ring.size(); ++i) {
      const Point &a = ring[i], &b = ring[(i + 1) % ring.size()];
      const bool down = a[1] <= b[1];
      edges_.push_back({down ? a : b, down ? b : a, static_cast<uint32_t>(polygon)});
    }
  };
  for (size_t p = 0; p < tissue.polygons.size(); ++p) {
    add(tissue.polygons[p].outer, p);
    for (const Ring& hole : tissue.polygons[p].holes) add(hole, p);
  }
  std::sort(edges_.begin(), edges_.end(), [](const Edge& a, const Edge& b) { return a.upper[1] < b.upper[1]; });
}

void Coverage::Next(const TileRow& row, std::vector<double>& areas, std::vector<uint8_t>* touched) {
  const double bottom = row.top + row.side;
  std::erase_if(live_, [&](const Edge* edge) { return edge->lower[1] < row.top; });
  for (; next_ < edges_.size() && edges_[next_].upper[1] <= bottom; ++next_) {
    if (edges_[next_].lower[1] >= row.top) live_.push_back(&edges_[next_]);
  }
  areas.assign(row.lefts.size(), 0);
  full_.assign(row.lefts.size() + 1, 0);
  std::vector<double> events{row.top, bottom};
  for (const Edge* edge : live_) {
    for (const double y : {edge->upper[1], edge->lower[1]}) {
      if (y > row.top && y < bottom) events.push_back(y);
    }
  }
  std::sort(events.begin(), events.end());
  events.erase(std::unique(events.begin(), events.end()), events.end());
  crossings_.clear();
  sorted_ = 0;
  size_t begun = 0;
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    std::erase_if(crossings_, [&](const Crossing& crossing) { return crossing.edge->lower[1] <= events[i]; });
    sorted_ = crossings_.size();
    for (; begun < live_.size() && live_[begun]->upper[1] <= events[i]; ++begun) {
      if (live_[begun]->lower[1] > events[i]) crossings_.push_back({live_[begun]});
    }
    if (!crossings_.empty()) Slab(events[i], events[i + 1], row, areas);
  }
  double full = 0;
  for (size_t i = 0; i < areas.size(); ++i) {
    full += full_[i];
    areas[i] += full;
  }
  if (touched != nullptr) {
    touched->assign(row.lefts.size(), 0);
    Touch(row, *touched);
  }
}

// Adds what is covered between two lines, between which edges neither begin nor end, piece by piece: up to where the
// first two edges cross.
void Coverage::Slab(double top, double bottom, const TileRow& row, std::vector<double>& areas) {
  while (top < bottom) {
    Spend(std::ssize(crossings_));
    const double probe = top + (bottom - top) * kProbe;
    for (Crossing& crossing : crossings_) {
      crossing.from = crossing.edge->At(top), crossing.to = crossing.edge->At(bottom);
      crossing.probe = crossing.edge->At(probe);
    }
    Sort();
    double end = bottom;
    for (size_t i = 0; i + 1 < crossings_.size(); ++i) {
      const Crossing &left = crossings_[i], &right = crossings_[i + 1];
      const double before = right.probe - left.probe, after = left.to - right.to;
      if (after > kCrossing) end = std::min(end, probe + (bottom - probe) * (before / (before + after)));
    }
    if (end <= top) end = bottom;
    if (end < bottom) {
      for (Crossing& crossing : crossings_) crossing.to = crossing.edge->At(end);
    }
    AddSlab(end - top, row, areas);
    top = end;
  }
}

// From left to right. Few edges change places between slabs, so those that were sorted are inserted one by one.
void Coverage::Sort() {
  const auto before = [](const Crossing& a, const Crossing& b) {
    return std::tie(a.probe, a.to) < std::tie(b.probe, b.to);
  };
  constexpr size_t kFew = 16;
  if (crossings_.size() > sorted_ + kFew) {
    std::sort(crossings_.begin(), crossings_.end(), before);
  } else {
    for (size_t i = 1; i < crossings_.size(); ++i) {
      const Crossing moved = crossings_[i];
      size_t at = i;
      for (; at > 0 && before(moved, crossings_[at - 1]); --at) crossings_[at] = crossings_[at - 1];
      crossings_[at] = moved;
      Spend(static_cast<int64_t>(i - at));
    }
  }
  sorted_ = crossings_.size();
}

void Coverage::AddSlab(double height, const TileRow& row, std::vector<double>& areas) {
  int64_t covering = 0;  // polygons
  for (const Crossing& crossing : crossings_) {
    uint8_t& inside = inside_[crossing.edge->polygon];
    inside ^= 1;
    const int64_t before = covering;
    covering += inside ? 1 : -1;
    if (before == 0) AddEdge(crossing, height, row, areas);
    if (covering == 0) AddEdge(crossing, -height, row, areas);
  }
}

// Adds weight × the mean width of each tile that lies right of the edge.
void Coverage::AddEdge(const Crossing& edge, double weight, const TileRow& row, std::vector<double>& areas) {
  const double low = std::min(edge.from, edge.to), high = std::max(edge.from, edge.to), side = row.side;
  const auto whole = std::lower_bound(row.lefts.begin(), row.lefts.end(), high) - row.lefts.begin();
  full_[static_cast<size_t>(whole)] += weight * side;
  for (auto i = whole - 1; i >= 0; --i) {
    const double left = row.lefts[static_cast<size_t>(i)], right = left + side;
    if (right <= low) break;
    double width = right - low;
    if (high > low) {
      const double a = std::clamp(left, low, high), b = std::clamp(right, low, high);
      width = (side * (a - low) + (b - a) * (right - (a + b) / 2)) / (high - low);
    } else {
      width = std::min(width, side);
    }
    areas[static_cast<size_t>(i)] += weight * width;
  }
}

void Coverage::Touch(const TileRow& row, std::vector<uint8_t>& touched) const {
  for (const Edge* edge : live_) {
    const double from = edge->At(row.top), to = edge->At(row.top + row.side);
    const bool level = edge->upper[1] == edge->lower[1];
    const double low = level ? std::min(edge->upper[0], edge->lower[0]) : std::min(from, to);
    const double high = level ? std::max(edge->upper[0], edge->lower[0]) : std::max(from, to);
    auto i = std::upper_bound(row.lefts.begin(), row.lefts.end(), high) - row.lefts.begin() - 1;
    for (; i >= 0 && row.lefts[static_cast<size_t>(i)] + row.side >= low; --i) touched[static_cast<size_t>(i)] = 1;
  }
}

}  // namespace qkv::slide
