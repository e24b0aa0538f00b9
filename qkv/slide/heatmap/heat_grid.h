// Scores of tiles as values to be shown, a tile each, and as a grid of cells in which overlapping tiles are averaged.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "qkv/core/tensor.h"

namespace qkv::slide {

/// Tiles of one slide, each with a score.
struct TileScores {
  std::span<const std::array<int64_t, 2>> coords;  // [tiles] x, y of the upper left corner at level 0
  int64_t side = 0;                                // of a tile, in pixels of level 0
  std::span<const float> scores;                   // [tiles]

  int64_t tiles() const { return static_cast<int64_t>(coords.size()); }
};

/// What is shown of scores, always in 0 … 1.
enum class HeatValues {
  kRaw,      // between the smallest and the greatest score
  kRanked,   // the part of tiles with at most this score; ties have their mean rank, as CLAM's percentiles
  kBlurred,  // ranks smoothed over the grid of tiles by a Gaussian
};

inline constexpr std::array kAllHeatValues = {HeatValues::kRaw, HeatValues::kRanked, HeatValues::kBlurred};
/// "raw", "ranked", "blurred"
std::string_view HeatValuesName(HeatValues values);

/// Throws Error unless there are as many scores as tiles, one at least, all scores are finite, and coordinates and side
/// are below 1e9.
void CheckTiles(const TileScores& tiles);

/// A value for each tile, in 0 … 1. Of equal scores alone the raw value is 0. kBlurred has the ranks of kRanked:
/// smoothing needs a grid.
std::vector<float> ScaleScores(std::span<const float> scores, HeatValues values);

/// Squares over the tiles.
struct HeatGrid {
  int64_t x = 0, y = 0;  // upper left corner at level 0
  int64_t cell = 0;      // side of a cell, in pixels of level 0
  Tensor<float> values;  // [rows, columns]: the mean of a cell's tiles by area; NaN where these sum to less than half

  int64_t rows() const { return values.dim(0); }         // of cells
  int64_t columns() const { return values.dim(1); }      // of cells
  float At(double level0_x, double level0_y) const;      // the cell's value at a point of level 0; NaN outside
  float Smooth(double level0_x, double level0_y) const;  // between the centres of cells; NaN where At is
};

/// The standard deviation of kBlurred, in sides of a tile.
inline constexpr double kBlurSides = 1;

/// Cells are as large as tiles and their steps allow; tiles that lie on no common grid have four cells a side. No side
/// of the grid has more than 2,048. Throws Error as CheckTiles.
HeatGrid MakeHeatGrid(const TileScores& tiles, HeatValues values);

}  // namespace qkv::slide
