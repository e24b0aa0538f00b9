// Outlines of masks as polygons with holes: simplified, and valid.
#pragma once

#include <vector>

#include "qkv/slide/tissue/mask.h"
#include "qkv/slide/tissue/tissue.h"

namespace qkv::slide {

/// The pieces of a mask whose pieces touch at no corner (Tidy), along the edges of pixels: each a polygon with its
/// holes, scaled by `x_scale` and `y_scale`. Steps are smoothed, at most a pixel from where they were, unless rings
/// would then touch or cross. Coordinates are whole numbers where a pixel is 2 or more.
std::vector<Polygon> Outlines(const Mask& mask, double x_scale, double y_scale);

}  // namespace qkv::slide
