// Masks as run lengths, as COCO stores them: column by column from the left, beginning with the number of zeros.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/core/tensor.h"
#include "qkv/io/json.h"

namespace qkv::app {

struct MaskRle {
  int64_t height = 0, width = 0;  // of the mask, in pixels
  std::vector<int64_t> counts;    // zeros, ones, zeros, …
};

/// A rectangle of whole pixels: [top, bottom) × [left, right).
struct PixelBox {
  int64_t top = 0, left = 0, bottom = 0, right = 0;
};

/// The pixels of `values`, [height, width], dense, that equal `value`. All of these are within `box`; pixels outside of
/// it are not read.
template <typename T>
MaskRle EncodeMask(View<const T> values, T value, const PixelBox& box);

/// pycocotools' "counts": each number, from the third one on less the one before the last, in groups of five bits.
std::string CompressCounts(std::span<const int64_t> counts);

/// The other way. Throws Error for text that CompressCounts does not write.
std::vector<int64_t> ExpandCounts(std::string_view counts);

/// [height, width] of 0 and 1. Throws Error if the counts are negative or their sum is not height · width.
Tensor<uint8_t> DecodeMask(const MaskRle& mask);

/// {"size": [height, width], "counts": "…"}
io::Json ToJson(const MaskRle& mask);

}  // namespace qkv::app
