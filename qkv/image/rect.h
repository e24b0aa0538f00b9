// A rectangle in fractional pixels.
#pragma once

namespace qkv::image {

struct Rect {
  double top = 0, left = 0, height = 0, width = 0;

  /// Maps a coordinate of the unit square to a row or column of this rectangle.
  double y(double part) const { return top + part * height; }
  double x(double part) const { return left + part * width; }
};

}  // namespace qkv::image
