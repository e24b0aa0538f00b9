// The tiles of a slide: which level they are read from, and which of them show tissue. TRIDENT's arithmetic.
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
  double min_tissue = 0.5;              // part of a tile's area; 0: every tile that touches tissue
};

struct Grid {
  GridOptions options;
  int level = 0;              // tiles are read from
  int64_t size_at_level = 0;  // side of a tile there; another than options.tile is resampled
  int64_t size_at_level0 = 0, overlap_at_level0 = 0;
  double level0_magnification = 0;             // the slide's, as its microns a pixel say
  std::vector<std::array<int64_t, 2>> coords;  // [tiles] x, y of the upper left corner at level 0
};

/// Throws Error if the slide says neither microns a pixel nor magnification, and if the tiles would be finer than the
/// slide is.
Grid PlanGrid(const SlideFacts& slide, const Tissue& tissue, const GridOptions& options);

/// Reads tile `index` as RGB [tile, tile, 3] into `pixels`: from the grid's level, resampled to its size where needed.
/// Threads may call this at a time, each with its own memory. Throws as Slide::Read.
void ReadTile(const Slide& slide, const Grid& grid, size_t index, image::Image& pixels);

}  // namespace qkv::slide
