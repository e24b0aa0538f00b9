// Drawing on images: heat maps over photos, filled rectangles, text, contact sheets. Work over a whole image can be
// given up (core/work.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/image/colour_map.h"
#include "qkv/image/image.h"
#include "qkv/image/rect.h"

namespace qkv::image {

/// Interpolation of a map's cells to pixels; border cells extend outwards.
enum class Upsampling { kNearest, kBilinear, kBicubic };

/// Interpolates a grid of values [rows, columns] over the rectangle `where` of an image of height × width: [height,
/// width], each pixel the value at its centre, NaN outside `where`. Bicubic is Catmull–Rom (a = −½), which preserves
/// the cells' values and may overshoot between them.
Tensor<float> Stretch(View<const float> grid, const Rect& where, int64_t height, int64_t width, Upsampling upsampling);

/// Style of OverlayHeat.
struct HeatStyle {
  ColourMap colours = ColourMap::kSequential;    // of values from low to high
  Upsampling upsampling = Upsampling::kBicubic;  // from cells to pixels
  double opacity = 0.6;                          // of the colours, 0 … 1
  double low = 0, high = 1;                      // values of the first and of the last colour
};

/// Draws a grid of values as colours over `where` of a photo (1 to 4 channels). The photo is greyscale there, so that
/// its colours cannot be mistaken for the map's, and dimmed outside, where the map has no values. Returns RGB of the
/// photo's size.
Image OverlayHeat(const Image& photo, View<const float> grid, const Rect& where, const HeatStyle& style);

/// Fills a rectangle of an RGB image, clipped to the image.
void Fill(Image& image, int64_t top, int64_t left, int64_t height, int64_t width, const Colour& colour);
/// Copies an RGB image into another, clipped to it.
void Paste(Image& image, const Image& picture, int64_t top, int64_t left);

/// Draws one line of UTF-8 text in DejaVu Sans over an RGB image, clipped to it; (top, left) is the corner of the line.
/// size: of an em, in pixels. Control characters are left out; a byte that is not UTF-8 becomes U+FFFD.
void DrawText(Image& image, std::string_view text, int64_t top, int64_t left, int size, const Colour& colour);
/// The same, turned to read upwards: it begins at (bottom, left), and `left` is the side of its upper edge.
void DrawUprightText(Image& image, std::string_view text, int64_t bottom, int64_t left, int size, const Colour& colour);
/// Width of a text by DrawText, in pixels.
int64_t TextWidth(std::string_view text, int size);
/// Height of a line by DrawText, in pixels.
int64_t TextHeight(int size);
/// The text, or, if it is wider than `width` pixels, its beginning and its end with "…" between them.
std::string ShortenText(std::string_view text, int size, int64_t width);

/// Arranges RGB images of one size in a grid, row by row, with names at the left and the top, and a title; each of the
/// three may be empty. Throws Error if sizes differ or the number does not fit.
Image ContactSheet(const std::vector<Image>& pictures, const std::vector<std::string>& rows,
                   const std::vector<std::string>& columns, std::string_view title);

}  // namespace qkv::image
