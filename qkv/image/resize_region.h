// Resizes and crops in one step. Internal to qkv/image.
#pragma once

#include <cstdint>

#include "qkv/image/resize.h"

namespace qkv::image {

/// Rows [top, top + height) and columns [left, left + width) of an image of full_height × full_width.
struct Region {
  int64_t full_height, full_width;
  int64_t top, left, height, width;
};

/// The crop of the resized image, without computing the rest; stored in workspace.resized.
Image& ResizeRegion(const Image& image, const Region& region, Filter filter, Workspace& workspace);

}  // namespace qkv::image
