// Resizing, byte-identical to Pillow 13.
#pragma once

#include <cstdint>

#include "qkv/image/image.h"

namespace qkv::image {

/// Pillow's resampling filters.
enum class Filter { kNearest, kBox, kBilinear, kHamming, kBicubic, kLanczos };

/// Resizes the image. Alpha images are resized premultiplied, as in Pillow.
Image Resize(const Image& image, int64_t height, int64_t width, Filter filter);
/// The same in the workspace's memory; valid until its next use.
Image& Resize(const Image& image, int64_t height, int64_t width, Filter filter, Workspace& workspace);

}  // namespace qkv::image
