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

/// Throws Error as Slide::Read; damaged parts are background.
Tissue FindTissue(const Slide& slide, const TissueOptions& options = {});

}  // namespace qkv::slide
