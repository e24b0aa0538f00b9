#include "qkv/app/slides/slide_maps.h"

#include <algorithm>

#include "qkv/app/slides/slide_folder.h"
#include "qkv/core/error.h"
#include "qkv/image/encode.h"
#include "qkv/slide/heatmap/heat_areas.h"
#include "qkv/slide/heatmap/heatmap.h"
#include "qkv/slide/tissue/geojson.h"

namespace qkv::app {

std::vector<float> ShownAttention(const mil::Answer& answer, std::optional<int64_t> row) {
  Require(answer.weights.rank() == 2 && answer.weights.dim(0) > 0, "heatmap: the head has no attention to show");
  const int64_t rows = answer.weights.dim(0), tiles = answer.weights.dim(1);
  Require(!row || (*row >= 0 && *row < rows), "heatmap: branch {} of {}; they count from 0", row.value_or(0), rows);
  if (!row && rows == 1) row = 0;
  if (!row && answer.logits.size() == rows) {
    const auto logits = answer.logits.span();
    row = std::max_element(logits.begin(), logits.end()) - logits.begin();
  }
  std::vector<float> shown(static_cast<size_t>(tiles));
  const int64_t first = row.value_or(0), end = row ? *row + 1 : rows;
  for (int64_t k = first; k < end; ++k) {
    const float* const weights_i = answer.weights.data() + k * tiles;
    for (size_t i = 0; i < shown.size(); ++i) shown[i] += weights_i[i] / static_cast<float>(end - first);
  }
  return shown;
}

void WriteHeatmap(const slide::Slide& slide, const slide::TileScores& tiles, const SlideMapStyle& style,
                  const std::filesystem::path& png, const std::function<void(const std::string&)>& damaged) {
  const slide::HeatGrid grid = slide::MakeHeatGrid(tiles, style.values);
  const image::Image overview = slide::ReadOverview(slide, style.side, damaged);
  SlideFolder::Prepare(png);
  image::WritePng(png, slide::DrawHeatmap(overview, slide.facts(), grid,
                                          slide::StyleOf(style.what, tiles, style.values, style.opacity)));
}

void WriteHeatAreas(const slide::TileScores& tiles, const SlideMapStyle& style, const std::filesystem::path& geojson) {
  SlideFolder::Prepare(geojson);
  if (style.areas) {
    slide::WriteGeoJson(geojson, slide::HeatAreas(tiles, style.what));
  } else {
    slide::WriteGeoJson(geojson, slide::TileFeatures(tiles, style.what));
  }
}

void WriteMaps(const slide::Slide& slide, std::span<const std::array<int64_t, 2>> coords, int64_t side,
               const mil::Answer& answer, const std::filesystem::path& path) {
  const std::vector<float> shown = ShownAttention(answer);
  const slide::TileScores tiles{coords, side, shown};
  const SlideMapStyle style;
  WriteHeatmap(slide, tiles, style, path.string() + ".png");
  WriteHeatAreas(tiles, style, path.string() + ".geojson");
}

}  // namespace qkv::app
