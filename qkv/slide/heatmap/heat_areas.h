// Scores of tiles as objects for QuPath: a detection for each tile, or the areas that tiles of about equal rank cover.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "qkv/slide/heatmap/heat_grid.h"
#include "qkv/slide/tissue/geojson.h"

namespace qkv::slide {

/// Tiles by the part of all tiles that scores less: the top 1 %, 5 %, 10 %, 25 %, 50 %, and the rest.
struct HeatBand {
  float least;       // ranks in it are above
  const char* name;  // "top 1 %"
};
inline constexpr std::array<HeatBand, 6> kHeatBands = {{{0.99F, "top 1 %"},
                                                        {0.95F, "top 5 %"},
                                                        {0.90F, "top 10 %"},
                                                        {0.75F, "top 25 %"},
                                                        {0.50F, "top 50 %"},
                                                        {0.00F, "lower half"}}};

/// The band of a rank in 0 … 1 (ScaleScores).
size_t HeatBandOf(float rank);

/// Makes the features of tiles one by one, so that 100,000 of them need no memory: detections with the measurements
/// `what` and `what` + " rank", of the class `what` + ": " + the name of their band.
class TileFeatures {
 public:
  /// Throws Error as CheckTiles. What `tiles` refers to outlives this.
  TileFeatures(const TileScores& tiles, std::string what);
  /// Fills the next feature, or returns false after the last.
  bool operator()(Feature& feature);

 private:
  const TileScores tiles_;
  const std::string what_;
  const std::vector<float> ranks_;
  size_t next_ = 0;
};

/// Annotations of the areas that tiles of each band cover, by the grid of their ranks. Their number depends on the
/// areas' shapes, not on the number of tiles. Throws Error as MakeHeatGrid.
std::vector<Feature> HeatAreas(const TileScores& tiles, const std::string& what);

}  // namespace qkv::slide
