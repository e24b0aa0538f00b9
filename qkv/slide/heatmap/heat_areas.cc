#include "qkv/slide/heatmap/heat_areas.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "qkv/core/work.h"
#include "qkv/slide/heatmap/heatmap.h"
#include "qkv/slide/tissue/mask.h"
#include "qkv/slide/tissue/outline.h"

namespace qkv::slide {
namespace {

// Pixels of a cell's side in the masks that are outlined: outlines leave out corners of one pixel, and areas that meet
// at a corner of cells are joined by a pixel there, which bands then share. A mask has at most 4,096 pixels a side.
int64_t PixelsOfCell(const HeatGrid& ranks) { return std::max(ranks.rows(), ranks.columns()) <= 1024 ? 4 : 2; }

Classification ClassOf(const std::string& what, size_t band) {
  const float above = band == 0 ? 1 : kHeatBands[band - 1].least;
  return {what + ": " + kHeatBands[band].name, image::ColourAt(kHeatColours, (kHeatBands[band].least + above) / 2)};
}

Mask MaskOf(const HeatGrid& ranks, size_t band) {
  const int64_t pixels = PixelsOfCell(ranks);
  Mask mask{.width = ranks.columns() * pixels, .height = ranks.rows() * pixels, .inside = {}};
  mask.inside.resize(static_cast<size_t>(mask.width * mask.height));
  for (int64_t y = 0; y < mask.height; ++y) {
    Spend(mask.width);
    for (int64_t x = 0; x < mask.width; ++x) {
      const float rank = ranks.values.data()[y / pixels * ranks.columns() + x / pixels];
      mask.inside[static_cast<size_t>(y * mask.width + x)] = !std::isnan(rank) && HeatBandOf(rank) == band;
    }
  }
  return mask;
}

void Move(Ring& ring, const HeatGrid& grid) {
  for (Point& point : ring) {
    point[0] += static_cast<double>(grid.x);
    point[1] += static_cast<double>(grid.y);
  }
}

}  // namespace

size_t HeatBandOf(float rank) {
  // A rank is the part of tiles with at most this score: the top 1 % are those above 0.99.
  size_t band = 0;
  while (band + 1 < kHeatBands.size() && rank <= kHeatBands[band].least) ++band;
  return band;
}

TileFeatures::TileFeatures(const TileScores& tiles, std::string what)
    : tiles_(tiles),
      what_(std::move(what)),
      ranks_((CheckTiles(tiles), ScaleScores(tiles.scores, HeatValues::kRanked))) {}

bool TileFeatures::operator()(Feature& feature) {
  if (next_ == tiles_.coords.size()) return false;
  const auto x = static_cast<double>(tiles_.coords[next_][0]), y = static_cast<double>(tiles_.coords[next_][1]);
  const auto side = static_cast<double>(tiles_.side);
  feature.area = {.outer = {{x, y}, {x + side, y}, {x + side, y + side}, {x, y + side}}, .holes = {}};
  feature.detection = true;
  feature.classification = ClassOf(what_, HeatBandOf(ranks_[next_]));
  feature.measurements = {{what_, tiles_.scores[next_]}, {what_ + " rank", ranks_[next_]}};
  ++next_;
  return true;
}

std::vector<Feature> HeatAreas(const TileScores& tiles, const std::string& what) {
  const HeatGrid ranks = MakeHeatGrid(tiles, HeatValues::kRanked);
  const auto pixel = static_cast<double>(ranks.cell) / static_cast<double>(PixelsOfCell(ranks));
  std::vector<Feature> features;
  for (size_t band = 0; band < kHeatBands.size(); ++band) {
    Mask mask = MaskOf(ranks, band);
    Tidy(mask, 0, 0, /*keep_holes=*/true);
    for (Polygon& polygon : Outlines(mask, pixel, pixel)) {
      Move(polygon.outer, ranks);
      for (Ring& hole : polygon.holes) Move(hole, ranks);
      features.push_back({.area = std::move(polygon), .classification = ClassOf(what, band)});
    }
  }
  return features;
}

}  // namespace qkv::slide
