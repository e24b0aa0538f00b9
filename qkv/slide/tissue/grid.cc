#include "qkv/slide/tissue/grid.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/core/memory.h"
#include "qkv/core/work.h"
#include "qkv/image/resize.h"
#include "qkv/slide/tissue/coverage.h"

namespace qkv::slide {
namespace {

// Magnification × microns a pixel, by convention.
constexpr double kMagnificationMicrons = 10;
constexpr double kDefaultMagnification = 20;
// A level this close to the wanted downsample is read as if it were the wanted one (TRIDENT's tolerance); and a slide
// may be coarser than the tiles by as much.
constexpr double kLevelTolerance = 0.1;
// A tile that is covered to its threshold but for rounding is kept.
constexpr double kAreaTolerance = 1e-9;
// Steps of Spend: minutes. Areas that someone drew take less than a second.
constexpr int64_t kAreaBudget = 50'000'000'000;

// TRIDENT's table: the objective that scanners have for so many microns a pixel.
std::optional<double> NominalMagnification(double mpp) {
  constexpr std::array<std::array<double, 2>, 6> kBelow{
      {{0.16, 80}, {0.2, 60}, {0.3, 40}, {0.6, 20}, {1.2, 10}, {2.4, 5}}};
  for (const auto& [below, magnification] : kBelow) {
    if (mpp < below) return magnification;
  }
  return std::nullopt;
}

void CheckOptions(const GridOptions& options) {
  constexpr int64_t kMostTile = 1 << 16;
  Require(options.tile >= 1 && options.tile <= kMostTile, "grid: expected tiles of 1 to {} pixels, got {}", kMostTile,
          options.tile);
  Require(options.overlap >= 0 && options.overlap < options.tile,
          "grid: expected an overlap of 0 to {} pixels, less than a tile, got {}", options.tile - 1, options.overlap);
  Require(options.min_tissue >= 0 && options.min_tissue <= 1, "grid: expected a share of tissue of 0 to 1, got {}",
          options.min_tissue);
  Require(!options.magnification || !options.mpp,
          "grid: expected a magnification or microns a pixel, got both; leave one out");
  Require((!options.magnification || *options.magnification > 0) && (!options.mpp || *options.mpp > 0),
          "grid: expected a magnification or microns a pixel above 0, got {}",
          options.magnification.value_or(options.mpp.value_or(0)));
}

// Level 0 pixels a pixel of the tiles. Sets the slide's magnification.
double DownsampleOf(const SlideFacts& slide, Grid& grid) {
  const GridOptions& options = grid.options;
  Require(slide.mpp_x || slide.magnification,
          "grid: the slide says neither microns a pixel nor its magnification; --mpp-file gives them");
  const double scale = slide.mpp_x ? *slide.mpp_x : *slide.magnification;
  Require(std::isfinite(scale) && scale > 0, "grid: expected {} above 0, the slide says {}",
          slide.mpp_x ? "microns a pixel" : "a magnification", scale);
  const std::optional<double> nominal = slide.mpp_x ? NominalMagnification(*slide.mpp_x) : slide.magnification;
  grid.level0_magnification = nominal ? *nominal : kMagnificationMicrons / *slide.mpp_x;
  if (options.mpp) return *options.mpp / (slide.mpp_x ? *slide.mpp_x : kMagnificationMicrons / *slide.magnification);
  Require(nominal.has_value(),
          "grid: {} microns a pixel are no magnification of a microscope; ask for tiles by microns a pixel",
          slide.mpp_x.value_or(0));
  return (kMagnificationMicrons / options.magnification.value_or(kDefaultMagnification)) /
         (kMagnificationMicrons / *nominal);
}

// The level within the tolerance, else the coarsest that is finer than the tiles.
int GridLevel(const std::vector<Level>& levels, double downsample) {
  for (size_t level = 0; level < levels.size(); ++level) {
    if (std::abs(levels[level].downsample - downsample) <= kLevelTolerance) return static_cast<int>(level);
  }
  int found = 0;
  for (size_t level = 0; level < levels.size() && levels[level].downsample <= downsample; ++level) {
    found = static_cast<int>(level);
  }
  return found;
}

// Where tiles begin along a side of `length`. As in TRIDENT, the first two do not overlap.
std::vector<double> Starts(int64_t length, int64_t size, int64_t overlap) {
  std::vector<double> starts;
  RequireMemory(static_cast<double>(length) / static_cast<double>(size - overlap) * sizeof(double) * 2, "grid: tiles");
  for (int64_t i = 0, at = 0; at < length; ++i, at = i * size - overlap * std::max<int64_t>(i - 1, 0)) {
    starts.push_back(static_cast<double>(at));
  }
  return starts;
}

// std::nearbyint rounds halves to even, as Python's round.
int64_t RoundToEven(double value) { return static_cast<int64_t>(std::nearbyint(value)); }

}  // namespace

Grid PlanGrid(const SlideFacts& slide, const Tissue& tissue, const GridOptions& options) {
  CheckOptions(options);
  Require(!slide.levels.empty() && slide.levels[0].width > 0 && slide.levels[0].height > 0,
          "grid: the slide has no pixels");
  Grid grid;
  grid.options = options;
  const double downsample = DownsampleOf(slide, grid);
  Require(
      downsample >= 1 - kLevelTolerance,
      "grid: expected tiles no finer than the slide ({}×, {} microns a pixel), got {} pixels of tiles for one of the "
      "slide; ask for a lower magnification",
      grid.level0_magnification, slide.mpp_x.value_or(kMagnificationMicrons / grid.level0_magnification),
      1 / downsample);
  constexpr double kMostSize = 1e8;
  Require(static_cast<double>(options.tile) * downsample < kMostSize, "grid: tiles of {} pixels of the slide",
          static_cast<double>(options.tile) * downsample);
  grid.level = GridLevel(slide.levels, downsample);
  grid.size_at_level0 = RoundToEven(static_cast<double>(options.tile) * downsample);
  grid.overlap_at_level0 = RoundToEven(static_cast<double>(options.overlap) * downsample);
  Require(grid.size_at_level0 > grid.overlap_at_level0, "grid: an overlap of {} pixels leaves nothing of a tile of {}",
          options.overlap, options.tile);
  // TRIDENT divides by the whole part of the level's downsample: of 3.9998 it reads a third too much.
  grid.size_at_level = std::max<int64_t>(1, RoundToEven(static_cast<double>(grid.size_at_level0) /
                                                        slide.levels[static_cast<size_t>(grid.level)].downsample));

  const std::vector<double> lefts = Starts(slide.levels[0].width, grid.size_at_level0, grid.overlap_at_level0);
  const std::vector<double> tops = Starts(slide.levels[0].height, grid.size_at_level0, grid.overlap_at_level0);
  const auto side = static_cast<double>(grid.size_at_level0);
  const WorkBudget budget(kAreaBudget, "grid: areas of tissue with too many points or crossings");
  Coverage coverage(tissue);
  std::vector<double> areas;
  std::vector<uint8_t> touched;
  const bool touch = options.min_tissue == 0;
  const double least = (touch ? kAreaTolerance : options.min_tissue - kAreaTolerance) * side * side;
  for (const double top : tops) {
    Spend(std::ssize(lefts));
    coverage.Next({top, side, lefts}, areas, touch ? &touched : nullptr);
    for (size_t i = 0; i < lefts.size(); ++i) {
      if (areas[i] < least && !(touch && touched[i])) continue;
      grid.coords.push_back({static_cast<int64_t>(lefts[i]), static_cast<int64_t>(top)});
    }
    RequireMemory(static_cast<double>(grid.coords.size() * sizeof(grid.coords[0])) * 2, "grid: tiles");
  }
  return grid;
}

void ReadTile(const Slide& slide, const Grid& grid, size_t index, image::Image& pixels) {
  Require(index < grid.coords.size(), "grid: expected a tile below {}, got {}", grid.coords.size(), index);
  const double downsample = slide.facts().levels.at(static_cast<size_t>(grid.level)).downsample;
  const auto& [x, y] = grid.coords[index];
  const Region region{RoundToEven(static_cast<double>(x) / downsample),
                      RoundToEven(static_cast<double>(y) / downsample), grid.size_at_level, grid.size_at_level};
  if (grid.size_at_level == grid.options.tile) return slide.Read(grid.level, region, pixels);
  image::Image read;
  slide.Read(grid.level, region, read);
  // Pillow's Image.resize has this filter unless told otherwise.
  pixels = image::Resize(read, grid.options.tile, grid.options.tile, image::Filter::kBicubic);
}

}  // namespace qkv::slide
