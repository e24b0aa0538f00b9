// A slide as a Deep Zoom pyramid: small pictures of each part at each power of two, which a page shows without a
// server.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "qkv/slide/read/slide.h"

namespace qkv::slide {

/// The side of a picture of the pyramid, in pixels.
inline constexpr int64_t kPyramidTile = 256;

struct PyramidOptions {
  double finest_mpp = 1;  // microns a pixel of the finest level, to the nearest power of two of the slide's own
  float quality = 80;     // of WebP
  std::string source;     // which slide it is: pictures of another are not taken over
  std::function<void(int64_t pictures)> begin;    // so many are to be made
  std::function<void(int64_t pictures)> advance;  // so many more are done, from any thread, one at a time
};

/// A part of the slide that cannot be read, which is grey in the pyramid.
struct DamagedPart {
  int64_t x = 0, y = 0, width = 0, height = 0;  // at level 0
  std::string why;
};

struct Pyramid {
  int64_t width = 0, height = 0;  // of the finest level
  int64_t downsample = 1;         // of the slide's level 0 to it: a power of two
  int finest = 0;                 // its number: level 0 is one pixel
  std::vector<DamagedPart> damaged;

  int64_t Columns(int level) const;  // of pictures
  int64_t Rows(int level) const;
  int64_t Pictures() const;  // of all levels
};

/// The levels. A slide that says no microns a pixel has a finest level of at most 16,384 pixels a side.
Pyramid PlanPyramid(const SlideFacts& facts, const PyramidOptions& options);

/// Writes FOLDER/slide.dzi, FOLDER/slide_files/LEVEL/COLUMN_ROW.webp and FOLDER/slide.json, which says what it was made
/// of, on all cores and with about 100 MB a core. Pictures that are there are kept, so a run that was stopped goes on.
/// Throws Error if the folder has a pyramid of another slide or other options, and with the system's reason. Can be
/// given up (core/work.h).
Pyramid WritePyramid(const Slide& slide, const std::filesystem::path& folder, const PyramidOptions& options);

/// A region of the slide's level 0 as RGB [height, width, 3], by the next finer level and a box filter; damaged parts
/// throw as Slide::Read.
void ReadReduced(const Slide& slide, const Region& level0, int64_t width, int64_t height, image::Image& pixels);

}  // namespace qkv::slide
