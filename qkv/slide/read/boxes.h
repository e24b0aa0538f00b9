// Pictures reduced by boxes: each pixel is the mean of those that it covers. Internal to slide/read/.
#pragma once

#include <cstdint>

#include "qkv/image/image.h"

namespace qkv::slide {

/// Reduces RGB by a whole factor into `out`, rows of `out_stride` bytes; boxes at the right and lower edge may be
/// smaller. Can be given up (core/work.h).
void ReduceByFactor(const image::Image& in, int64_t factor, uint8_t* out, int64_t out_stride);

/// One axis: output pixel o of `outputs` covers [o, o + 1) · inputs / outputs.
struct BoxAxis {
  int64_t inputs = 0, outputs = 0;

  double begin(int64_t o) const {
    return static_cast<double>(o) * static_cast<double>(inputs) / static_cast<double>(outputs);
  }
};

/// Reduces RGB `in`, which holds the inputs from (x0, y0) on, to outputs [left, left + width) x [top, top + height),
/// which go to `out`, rows of `out_stride` bytes. Boxes need not be whole: pixels count by the part that is covered.
void ReduceToBoxes(const image::Image& in, int64_t x0, int64_t y0, const BoxAxis& columns, const BoxAxis& rows,
                   int64_t left, int64_t top, int64_t width, int64_t height, uint8_t* out, int64_t out_stride);

}  // namespace qkv::slide
