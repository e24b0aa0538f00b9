// Where a head looked on a slide, as a picture and for QuPath.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/mil/head.h"
#include "qkv/slide/heatmap/heat_grid.h"
#include "qkv/slide/read/slide.h"

namespace qkv::app {

/// How scores are shown.
struct SlideMapStyle {
  slide::HeatValues values = slide::HeatValues::kBlurred;
  double opacity = 0.5;            // of the colours
  int64_t side = 2000;             // of the picture, in pixels: the longer one at most
  bool areas = false;              // GeoJSON of areas of about equal rank instead of each tile
  std::string what = "attention";  // the scores' name in the legend and in QuPath
};

/// The attention that is shown of an answer, [tiles]: of one row of its weights; without one, of the class with the
/// greatest logit if each class has a row, else the mean of the rows. Throws Error if there is no such row.
std::vector<float> ShownAttention(const mil::Answer& answer, std::optional<int64_t> row = {});

/// A picture of the slide with the scores of its tiles. `damaged` receives what cannot be read, which is white.
void WriteHeatmap(const slide::Slide& slide, const slide::TileScores& tiles, const SlideMapStyle& style,
                  const std::filesystem::path& png, const std::function<void(const std::string&)>& damaged = {});
/// Tiles or areas for QuPath, gzipped if the path ends in .gz.
void WriteHeatAreas(const slide::TileScores& tiles, const SlideMapStyle& style, const std::filesystem::path& geojson);

/// Both of what a head says: PATH.png and PATH.geojson. coords: [tiles] at level 0; side: of a tile there. Makes the
/// folder.
void WriteMaps(const slide::Slide& slide, std::span<const std::array<int64_t, 2>> coords, int64_t side,
               const mil::Answer& answer, const std::filesystem::path& path);

}  // namespace qkv::app
