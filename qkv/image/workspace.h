// Scratch memory for processing images one after the other.
#pragma once

#include <string>
#include <vector>

#include "qkv/core/tensor.h"
#include "qkv/image/image.h"
#include "qkv/image/resize_passes.h"

namespace qkv::image {

/// Scratch memory of one caller. Another image of the same size and format allocates nothing, except inside the
/// format's library. Not thread-safe.
struct Workspace {
  Tensor<uint8_t> file;        // bytes of the file
  Tensor<uint8_t> turned;      // rotated or mirrored image
  std::string exif;            // EXIF joined from segments, or decoded from digits
  std::vector<uint8_t> row;    // of ink, or palette indices
  Tensor<uint16_t> deep;       // image, or a row, of 16 bits per sample
  Tensor<uint32_t> packed;     // image of 32-bit words
  Tensor<uint8_t> band, tile;  // some rows of samples in the file's layout
  Image negative;              // inverted, for models of bright strokes on dark backgrounds
  Image converted;             // to the model's channels
  Image premultiplied;         // alpha premultiplied
  Tensor<uint8_t> between;     // between the two passes of a resize
  Image resized;
  Taps columns, rows;
  std::vector<double> exact;  // weights of one output before rounding
  Sides sides;
};

}  // namespace qkv::image
