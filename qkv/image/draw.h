// Drawing on pictures: heat maps over photos, filled rectangles, small text, sheets of many pictures.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/image/colour_map.h"
#include "qkv/image/image.h"
#include "qkv/image/rect.h"

namespace qkv::image {

/// How the cells of a map become pixels; at the border the outermost cells go on.
enum class Upsampling { kNearest, kBilinear, kBicubic };

/// A grid of values, [rows, columns], stretched over `where` of a picture of height × width: [height, width], each
/// pixel the value at its centre, NaN outside of `where`. Bicubic is Catmull and Rom's (a = −½), which keeps the cells'
/// values and may overshoot between them.
Tensor<float> Stretch(View<const float> grid, const Rect& where, int64_t height, int64_t width, Upsampling upsampling);

/// How OverlayHeat draws a map.
struct HeatStyle {
  ColourMap colours = ColourMap::kSequential;    // of values from low to high
  Upsampling upsampling = Upsampling::kBicubic;  // from cells to pixels
  double opacity = 0.6;                          // of the colours, 0 … 1
  double low = 0, high = 1;                      // values of the first and of the last colour
};

/// A grid of values as colours over `where` of a photo (1 to 4 channels), which loses its own colours there so that
/// they cannot be mistaken for the map's. What lies outside is dimmed: the map says nothing about it. RGB, the photo's
/// size.
Image OverlayHeat(const Image& photo, View<const float> grid, const Rect& where, const HeatStyle& style);

/// Fills a rectangle of an RGB image, as far as it lies inside.
void Fill(Image& image, int64_t top, int64_t left, int64_t height, int64_t width, const Colour& colour);
/// Copies an RGB picture into another, as far as it lies inside.
void Paste(Image& image, const Image& picture, int64_t top, int64_t left);

/// Text in letters of 5 × 7 pixels, 6 apart, times `scale`: A–Z (small letters are drawn as these), digits, and
/// the characters . , : % - / ( ) are drawn. Anything else is a space.
void DrawText(Image& image, std::string_view text, int64_t top, int64_t left, int scale, const Colour& colour);
/// Width in pixels of a text that DrawText draws.
int64_t TextWidth(std::string_view text, int scale);
/// Height in pixels of a text that DrawText draws.
int64_t TextHeight(int scale);

/// RGB pictures of one size in rows and columns, named at the left and at the top, under a title; any of the three may
/// be empty. `pictures` row by row. Throws Error when the sizes differ or the number does not fit.
Image ContactSheet(const std::vector<Image>& pictures, const std::vector<std::string>& rows,
                   const std::vector<std::string>& columns, std::string_view title);

}  // namespace qkv::image
