// A slide with the scores of its tiles in colours over it, as a picture.
#pragma once

#include <string>

#include "qkv/image/colour_map.h"
#include "qkv/image/image.h"
#include "qkv/slide/heatmap/heat_grid.h"
#include "qkv/slide/read/slide.h"

namespace qkv::slide {

/// The colours of scores, from low to high.
inline constexpr image::ColourMap kHeatColours = image::ColourMap::kSequential;

struct HeatmapStyle {
  HeatValues values = HeatValues::kBlurred;
  double opacity = 0.5;                     // of the colours, 0 … 1
  std::string title = "attention, ranked";  // of the legend
  std::string low = "0", high = "1";        // the numbers at its ends
};

/// The legend's words of such scores: what is shown of `what`, and the scores or ranks at both ends.
HeatmapStyle StyleOf(const std::string& what, const TileScores& tiles, HeatValues values, double opacity);

/// An overview of the slide (ReadOverview, RGB) with colours where tiles are, and below it a legend with, if the slide
/// has a scale, a bar in micrometres or millimetres. Returns RGB, as wide as the overview or 480 pixels. Throws Error
/// if there is no memory for it. Can be given up (core/work.h).
image::Image DrawHeatmap(const image::Image& overview, const SlideFacts& facts, const HeatGrid& grid,
                         const HeatmapStyle& style);

}  // namespace qkv::slide
