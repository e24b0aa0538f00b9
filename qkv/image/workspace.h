// Scratch memory for one image after the other.
#pragma once

#include <string>
#include <vector>

#include "qkv/core/tensor.h"
#include "qkv/image/image.h"
#include "qkv/image/resize_passes.h"

namespace qkv::image {

/// Scratch memory of one caller: another image of the same size and format allocates nothing, but for what the formats'
/// libraries do. Not shared between threads.
struct Workspace {
  Tensor<uint8_t> file;         // its bytes
  Tensor<uint8_t> turned;       // the other way up
  std::string exif;             // joined from its pieces, or from digits
  std::vector<uint8_t> row;     // of ink, or of indices into a palette
  std::vector<uint8_t*> lines;  // where each row of an image goes
  std::vector<int64_t> levels;  // a row of them
  Tensor<uint16_t> deep;        // an image of 16 bits a sample
  Tensor<uint32_t> packed;      // or of a word a pixel
  Tensor<uint8_t> band, tile;   // some rows of samples as a file has them
  Image negative;               // for models of bright strokes on dark ground
  Image converted;              // to the model's channels
  Image premultiplied;          // by alpha
  Tensor<uint8_t> between;      // the two passes of a resize
  Image resized;
  Taps columns, rows;
  std::vector<double> exact;  // weights of one output before rounding
  Sides sides;
};

}  // namespace qkv::image
