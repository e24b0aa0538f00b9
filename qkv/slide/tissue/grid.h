// The tiles of a slide: which level they are read from, and which of them show tissue. TRIDENT's arithmetic.
//
// As there, magnifications go by a table of microns a pixel (0.2527 is 40 ×), halves round to even, the first two tiles
// of a row or column do not overlap, and tiles reach beyond the right and the lower border. Other than there, on
// purpose: shares of tissue are exact, where TRIDENT first simplifies the mask by a quarter of a tile's side; the side
// at a level follows from its downsample, not from the whole part of it (3.9998 → 3); tiles finer than the slide are
// refused.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "qkv/slide/read/slide.h"
#include "qkv/slide/tissue/tissue.h"

namespace qkv::slide {

struct GridOptions {
  std::optional<double> magnification;  // of the tiles, such as 20
  std::optional<double> mpp;            // or microns a pixel of theirs, such as 0.5; neither: 20 ×
  int64_t tile = 256;                   // side in pixels of the encoder
  int64_t overlap = 0;                  // of neighbours, in the same pixels
  double min_tissue = 0.5;              // share of a tile's area, 0 to 1; 0: every tile that touches tissue
};

struct Grid {
  GridOptions options;
  int level = 0;              // tiles are read from
  int64_t size_at_level = 0;  // side of a tile there; another than options.tile is resampled
  int64_t size_at_level0 = 0, overlap_at_level0 = 0;
  double level0_magnification = 0;             // the slide's, as its microns a pixel say
  std::vector<std::array<int64_t, 2>> coords;  // [tiles] x, y of the upper left corner at level 0
};

/// Of a slide that says only one of microns a pixel and magnification, their product is taken to be 10. Throws Error if
/// it says neither, if the tiles would be finer than the slide by more than a tenth, and for options that cannot be.
Grid PlanGrid(const SlideFacts& slide, const Tissue& tissue, const GridOptions& options);

/// Reads tile `index` as RGB [tile, tile, 3] into `pixels`: from the grid's level, resampled to its size where needed,
/// as Pillow's resize does unless told otherwise (bicubic). Threads may call this at a time, each with its own memory.
/// Throws as Slide::Read.
void ReadTile(const Slide& slide, const Grid& grid, size_t index, image::Image& pixels);

}  // namespace qkv::slide
