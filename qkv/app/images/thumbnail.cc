#include "qkv/app/images/thumbnail.h"

#include <algorithm>

#include "qkv/core/error.h"
#include "qkv/core/parallel.h"
#include "qkv/image/encode.h"
#include "qkv/image/resize.h"

namespace qkv::app {
namespace {

// RGB, the longer side at most `side` pixels.
image::Image AtMost(const image::Image& photo, int64_t side) {
  const int64_t height = photo.height(), width = photo.width(), longer = std::max(height, width);
  image::Image rgb = image::ToChannels(photo, 3);
  if (longer <= side) return rgb;
  return image::Resize(rgb, std::max<int64_t>(1, height * side / longer), std::max<int64_t>(1, width * side / longer),
                       image::Filter::kBicubic);
}

}  // namespace

image::Image Thumbnail(const image::Image& photo, int64_t side) {
  const int64_t height = photo.height(), width = photo.width(), longer = std::max(height, width);
  // Digits and icons become larger without blur.
  const image::Filter filter = 4 * longer <= side ? image::Filter::kNearest : image::Filter::kLanczos;
  return image::Resize(image::ToChannels(photo, 3), std::max<int64_t>(1, height * side / longer),
                       std::max<int64_t>(1, width * side / longer), filter);
}

std::string PagePhoto(const image::Image& original) {
  constexpr int64_t kSide = 640;  // pixels
  return image::EncodePng(AtMost(original, kSide));
}

std::string LargePagePhoto(const image::Image& original) {
  constexpr int64_t kSide = 4096;  // pixels; a few megabytes
  return image::EncodeWebp(AtMost(original, kSide));
}

std::vector<image::Image> ReadThumbnails(std::span<const std::filesystem::path> files,
                                         const image::DecodeOptions& options, int64_t side) {
  std::vector<image::Image> thumbnails(files.size());
  ParallelTasks(std::ssize(files), [&](int64_t i, int) {
    const auto index = static_cast<size_t>(i);
    if (files[index] == "-") return;
    try {
      thumbnails[index] = Thumbnail(image::DecodeFile(files[index], options), side);
    } catch (const Error&) {  // moved, or damaged: its place stays empty
    }
  });
  return thumbnails;
}

}  // namespace qkv::app
