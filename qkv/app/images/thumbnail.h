// Small pictures of images, for sheets and pages.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "qkv/image/image.h"

namespace qkv::app {

/// RGB, the longer side `side` pixels; a smaller image is enlarged.
image::Image Thumbnail(const image::Image& photo, int64_t side);

/// RGB as PNG for a page, at most 640 pixels wide and high.
std::string PagePhoto(const image::Image& photo);
/// RGB as WebP, with loss, for a page whose photo is zoomed into: at most 4,096 pixels wide and high.
std::string LargePagePhoto(const image::Image& photo);

/// Thumbnails of the files, in parallel; without pixels where a file cannot be read. "-" is not read again.
std::vector<image::Image> ReadThumbnails(std::span<const std::filesystem::path> files,
                                         const image::DecodeOptions& options, int64_t side);

}  // namespace qkv::app
