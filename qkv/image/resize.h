// Resampling, to the byte as Pillow 13 does it.
#pragma once

#include <cstdint>

#include "qkv/image/image.h"

namespace qkv::image {

/// Pillow's resampling filters.
enum class Filter { kNearest, kBox, kBilinear, kHamming, kBicubic, kLanczos };

/// The image in another size. Alpha channels are resized premultiplied, as Pillow does.
Image Resize(const Image& image, int64_t height, int64_t width, Filter filter);
/// The same in the workspace's memory; valid until that is used again.
Image& Resize(const Image& image, int64_t height, int64_t width, Filter filter, Workspace& workspace);

}  // namespace qkv::image
