// A folder with a page of a slide to zoom into, with the scores of its tiles over it (web/app/src/slide). It needs no
// server and no network.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "qkv/app/slides/slide_maps.h"
#include "qkv/slide/heatmap/pyramid.h"

namespace qkv::app {

struct SlidePageOptions {
  std::string title;
  slide::PyramidOptions pyramid;
  SlideMapStyle style;                    // what is shown at first, its opacity, and the scores' name
  std::map<std::string, double> answers;  // a head's probabilities, shown beside the slide
};

/// Throws Error, which says what to do, if this program was built without Node.js and so has no page.
void RequireSlidePage();

/// Writes FOLDER/index.html, and beside it the pyramid of the slide (WritePyramid) and, if any part of the slide is
/// damaged, its place in the page. The page holds the scores of all tiles, the three maps of HeatValues, and pictures
/// of the tiles with the highest scores. Throws Error as RequireSlidePage, CheckTiles and WritePyramid.
slide::Pyramid WriteSlidePage(const slide::Slide& slide, const slide::TileScores& tiles,
                              const SlidePageOptions& options, const std::filesystem::path& folder);

}  // namespace qkv::app
