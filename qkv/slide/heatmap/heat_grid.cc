#include "qkv/slide/heatmap/heat_grid.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"
#include "qkv/core/work.h"

namespace qkv::slide {
namespace {

// 4 million cells, which take some tens of megabytes with their sums; a slide of 390 × 390 tiles has five a side.
constexpr int64_t kMostCells = 2048;
// Cells of a tile's side where tiles lie on no common grid: a border is off by an eighth of a tile at most.
constexpr int64_t kCellsOfTile = 4;
constexpr int64_t kMostCoordinate = 1'000'000'000;
constexpr float kNothing = std::numeric_limits<float>::quiet_NaN();

struct Extent {
  int64_t x = 0, y = 0, width = 0, height = 0;
};

Extent ExtentOf(const TileScores& tiles) {
  int64_t left = kMostCoordinate, top = kMostCoordinate, right = -kMostCoordinate, bottom = -kMostCoordinate;
  for (const auto& [x, y] : tiles.coords) {
    left = std::min(left, x);
    top = std::min(top, y);
    right = std::max(right, x + tiles.side);
    bottom = std::max(bottom, y + tiles.side);
  }
  return {left, top, right - left, bottom - top};
}

int64_t CellSide(const TileScores& tiles, const Extent& extent) {
  int64_t common = tiles.side;
  for (const auto& [x, y] : tiles.coords) common = std::gcd(common, std::gcd(x - extent.x, y - extent.y));
  if (common * 2 * kCellsOfTile < tiles.side) common = (tiles.side + kCellsOfTile - 1) / kCellsOfTile;
  const int64_t least = (std::max(extent.width, extent.height) + kMostCells - 1) / kMostCells;
  return std::max(common, least);
}

// Sums of value · area and of area, in cells, [rows, columns].
struct Sums {
  Tensor<double> values, areas;
};

Sums SumTiles(const TileScores& tiles, const std::vector<float>& values, const HeatGrid& grid) {
  Sums sums{Tensor<double>(grid.values.shape()), Tensor<double>(grid.values.shape())};
  const auto side = static_cast<double>(grid.cell);
  // The part of cell `index` that [begin, begin + tiles.side) covers along one axis.
  const auto part = [&](int64_t begin, int64_t index) {
    const int64_t from = std::max(begin, index * grid.cell);
    const int64_t to = std::min(begin + tiles.side, (index + 1) * grid.cell);
    return static_cast<double>(to - from) / side;
  };
  for (size_t i = 0; i < tiles.coords.size(); ++i) {
    const int64_t x = tiles.coords[i][0] - grid.x, y = tiles.coords[i][1] - grid.y;
    const int64_t last_row = (y + tiles.side - 1) / grid.cell, last_column = (x + tiles.side - 1) / grid.cell;
    for (int64_t row = y / grid.cell; row <= last_row; ++row) {
      for (int64_t column = x / grid.cell; column <= last_column; ++column) {
        const double area = part(y, row) * part(x, column);
        const int64_t at = row * grid.columns() + column;
        sums.values.data()[at] += area * values[i];
        sums.areas.data()[at] += area;
        Spend(1);
      }
    }
  }
  return sums;
}

// One pass of a Gaussian along rows, [rows, columns], of which each cell's result goes to the transposed place.
Tensor<float> BlurTransposed(const Tensor<float>& from, const std::vector<float>& taps) {
  const int64_t rows = from.dim(0), columns = from.dim(1), radius = std::ssize(taps) - 1;
  auto to = Tensor<float>::Uninitialised({columns, rows});
  ParallelFor(rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* const from_x = from.data() + row * columns;
      for (int64_t x = 0; x < columns; ++x) {
        const int64_t first = std::max<int64_t>(0, x - radius), last = std::min(columns - 1, x + radius);
        double sum = 0;
        for (int64_t k = first; k <= last; ++k) sum += from_x[k] * taps[static_cast<size_t>(std::abs(k - x))];
        to.data()[x * rows + row] = static_cast<float>(sum);
      }
    }
  });
  return to;
}

// Gaussian of the covered cells alone: glass beside tissue does not darken its border.
void Blur(Tensor<float>& values, double deviation) {
  const auto radius = static_cast<size_t>(std::ceil(3 * deviation));
  std::vector<float> taps(radius + 1);
  for (size_t k = 0; k <= radius; ++k) {
    const double distance = static_cast<double>(k) / deviation;
    taps[k] = static_cast<float>(std::exp(-0.5 * distance * distance));
  }
  auto known = Tensor<float>::Uninitialised(values.shape()), there = Tensor<float>::Uninitialised(values.shape());
  for (int64_t i = 0; i < values.size(); ++i) {
    const bool covered = !std::isnan(values.data()[i]);
    known.data()[i] = covered ? values.data()[i] : 0;
    there.data()[i] = covered ? 1 : 0;
  }
  const auto both = [&](const Tensor<float>& map) { return BlurTransposed(BlurTransposed(map, taps), taps); };
  const Tensor<float> sums = both(known), weights = both(there);
  for (int64_t i = 0; i < values.size(); ++i) {
    if (!std::isnan(values.data()[i])) values.data()[i] = sums.data()[i] / weights.data()[i];
  }
}

}  // namespace

std::string_view HeatValuesName(HeatValues values) {
  switch (values) {
    case HeatValues::kRaw:
      return "raw";
    case HeatValues::kRanked:
      return "ranked";
    case HeatValues::kBlurred:
      return "blurred";
  }
  return "";
}

void CheckTiles(const TileScores& tiles) {
  Require(!tiles.coords.empty(), "heatmap: expected at least one tile, got none");
  Require(tiles.scores.size() == tiles.coords.size(), "heatmap: expected a score for each of {} tiles, got {}",
          tiles.coords.size(), tiles.scores.size());
  Require(tiles.side > 0 && tiles.side < kMostCoordinate, "heatmap: expected a tile's side in 1 … {}, got {}",
          kMostCoordinate - 1, tiles.side);
  for (size_t i = 0; i < tiles.coords.size(); ++i) {
    const auto& [x, y] = tiles.coords[i];
    Require(x > -kMostCoordinate && x < kMostCoordinate && y > -kMostCoordinate && y < kMostCoordinate,
            "heatmap: tile {}: expected coordinates below {}, got {}, {}", i, kMostCoordinate, x, y);
    Require(std::isfinite(tiles.scores[i]), "heatmap: tile {} at {}, {}: expected a finite score, got {}", i, x, y,
            tiles.scores[i]);
  }
}

std::vector<float> ScaleScores(std::span<const float> scores, HeatValues values) {
  std::vector<float> scaled(scores.size());
  if (scores.empty()) return scaled;
  if (values == HeatValues::kRaw) {
    const auto [least, greatest] = std::minmax_element(scores.begin(), scores.end());
    const double low = *least, range = double{*greatest} - low;
    for (size_t i = 0; i < scores.size(); ++i) {
      scaled[i] = range > 0 ? static_cast<float>((scores[i] - low) / range) : 0.0F;
    }
    return scaled;
  }
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] < scores[b]; });
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && scores[order[end]] == scores[order[begin]]) ++end;
    const double rank = static_cast<double>(begin + 1 + end) / 2;  // the mean of begin + 1 … end
    for (size_t i = begin; i < end; ++i)
      scaled[order[i]] = static_cast<float>(rank / static_cast<double>(order.size()));
  }
  return scaled;
}

float HeatGrid::At(double level0_x, double level0_y) const {
  const double column = std::floor((level0_x - static_cast<double>(x)) / static_cast<double>(cell));
  const double row = std::floor((level0_y - static_cast<double>(y)) / static_cast<double>(cell));
  if (!(column >= 0 && row >= 0 && column < static_cast<double>(columns()) && row < static_cast<double>(rows()))) {
    return kNothing;
  }
  return values.data()[static_cast<int64_t>(row) * columns() + static_cast<int64_t>(column)];
}

float HeatGrid::Smooth(double level0_x, double level0_y) const {
  if (std::isnan(At(level0_x, level0_y))) return kNothing;
  const auto side = static_cast<double>(cell);
  const double left = std::floor((level0_x - static_cast<double>(x)) / side - 0.5);
  const double top = std::floor((level0_y - static_cast<double>(y)) / side - 0.5);
  double sum = 0, weights = 0;
  for (const double row : {top, top + 1}) {
    for (const double column : {left, left + 1}) {
      const double centre_x = static_cast<double>(x) + (column + 0.5) * side;
      const double centre_y = static_cast<double>(y) + (row + 0.5) * side;
      const float value = At(centre_x, centre_y);
      if (std::isnan(value)) continue;
      const double weight = (1 - std::abs(level0_x - centre_x) / side) * (1 - std::abs(level0_y - centre_y) / side);
      sum += weight * value;
      weights += weight;
    }
  }
  return static_cast<float>(sum / weights);
}

HeatGrid MakeHeatGrid(const TileScores& tiles, HeatValues values) {
  CheckTiles(tiles);
  const Extent extent = ExtentOf(tiles);
  HeatGrid grid{.x = extent.x, .y = extent.y, .cell = CellSide(tiles, extent), .values = {}};
  const int64_t columns = (extent.width + grid.cell - 1) / grid.cell,
                rows = (extent.height + grid.cell - 1) / grid.cell;
  // Two sums in double precision, and the maps of both passes of blurring.
  RequireMemory(static_cast<double>(rows * columns) * (2 * sizeof(double) + 5 * sizeof(float)), "heatmap: its cells");
  grid.values = Tensor<float>::Uninitialised({rows, columns});
  const Sums sums = SumTiles(tiles, ScaleScores(tiles.scores, values), grid);
  for (int64_t i = 0; i < grid.values.size(); ++i) {
    const double area = sums.areas.data()[i];
    grid.values.data()[i] = area < 0.5 ? kNothing : static_cast<float>(sums.values.data()[i] / area);
  }
  if (values == HeatValues::kBlurred) {
    Blur(grid.values, kBlurSides * static_cast<double>(tiles.side) / static_cast<double>(grid.cell));
  }
  return grid;
}

}  // namespace qkv::slide
