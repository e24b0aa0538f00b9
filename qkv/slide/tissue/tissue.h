// Where the tissue is: found at low power by Otsu's threshold, or read from GeoJSON that someone has edited.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "qkv/slide/read/slide.h"

namespace qkv::slide {

/// A point in pixels of level 0: x, y.
using Point = std::array<double, 2>;
using Ring = std::vector<Point>;  // without the first point again at the end

/// An area with holes.
struct Polygon {
  Ring outer;
  std::vector<Ring> holes;
};

struct Tissue {
  std::vector<Polygon> polygons;
};

struct TissueOptions {
  double mpp = 10;         // microns a pixel at which tissue is looked for; slides without a scale: 1024 pixels
  double min_area = 0.05;  // mm², of a piece of tissue; smaller ones are specks
  double min_hole = 0.02;  // mm²; smaller holes are filled
  bool keep_holes = true;  // false: all are filled
};

/// Tissue is what is coloured: saturated beside the glass, by Otsu's threshold. Black borders, dust, grey stains
/// (silver) and ink of green pens are background; ink of red and blue pens is not, and is removed by editing. Outlines
/// follow the border within two pixels of the overview; polygons are valid, and none touches another. Damaged parts are
/// background. Throws Error for options that cannot be, and as Slide::Read.
Tissue FindTissue(const Slide& slide, const TissueOptions& options = {});

}  // namespace qkv::slide
