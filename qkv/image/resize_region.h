// A part of a resized image. Internal to qkv/image.
#pragma once

#include <cstdint>

#include "qkv/image/resize.h"

namespace qkv::image {

/// Rows [top, top + height) and columns [left, left + width) of an image of full_height × full_width.
struct Region {
  int64_t full_height, full_width;
  int64_t top, left, height, width;
};

/// What cropping the resized image would give, without computing the rest of it: workspace.resized.
Image& ResizeRegion(const Image& image, const Region& region, Filter filter, Workspace& workspace);

}  // namespace qkv::image
