// Masks of small pictures of a slide: how coloured each pixel is, Otsu's threshold, closing, specks and holes by area.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "qkv/image/image.h"

namespace qkv::slide {

/// Which pixels of a picture belong to an area, one byte each: 0 or 1.
struct Mask {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> inside;  // [height, width]

  bool At(int64_t x, int64_t y) const {
    return x >= 0 && y >= 0 && x < width && y < height && inside[static_cast<size_t>(y * width + x)] != 0;
  }
};

/// How strongly each pixel of an RGB picture is coloured, [height, width]: its saturation once the glass is white.
/// Grey, black and strongly green pixels (borders of the scanner, dust, green ink) have 0.
std::vector<uint8_t> Colourfulness(const image::Image& picture);

/// The median of each square of 2 · radius + 1 pixels, clipped to the picture.
std::vector<uint8_t> MedianBlur(const std::vector<uint8_t>& values, int64_t width, int64_t height, int64_t radius);

/// Otsu's threshold: values above it are the upper class.
int OtsuThreshold(const std::array<int64_t, 256>& histogram);

/// Closes gaps of up to 2 · radius pixels; what is beyond the border neither adds nor takes away.
void Close(Mask& mask, int64_t radius);

/// Fills holes of less than `min_hole` pixels, or all, then removes pieces of less than `min_piece` pixels. Pieces that
/// touch only at corners are joined first, so that outlines never touch.
void Tidy(Mask& mask, double min_piece, double min_hole, bool keep_holes);

}  // namespace qkv::slide
