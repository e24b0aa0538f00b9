// A rectangle in fractions of pixels.
#pragma once

namespace qkv::image {

struct Rect {
  double top = 0, left = 0, height = 0, width = 0;

  /// Rows and columns of this rectangle's own [0, 1] square, in the pixels that it is given in.
  double y(double part) const { return top + part * height; }
  double x(double part) const { return left + part * width; }
};

}  // namespace qkv::image
