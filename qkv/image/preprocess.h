// From a decoded image to the tensor that a model was trained on, to the last bit of the original pipelines.
// Not here: reading the configuration files of the libraries (model/config/preprocess_config.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "qkv/core/tensor.h"
#include "qkv/image/image.h"
#include "qkv/image/rect.h"
#include "qkv/image/resize.h"

namespace qkv::image {

/// What happens to an image, in this order: resize, crop or pad, rescale, normalise.
struct Preprocess {
  /// How the size changes first.
  enum class Resize {
    kNone,
    kExact,         // to resize_height × resize_width, aspect ratio lost
    kShortestEdge,  // the shorter edge to resize_height, the longer one in proportion, truncated
    kFit,           // both edges fit in resize_height × resize_width, rounded half to even (timm's "border")
    kCover,         // both edges cover it, rounded half to even (timm's "center" where the target is not square)
  };
  /// What of the resized image is kept.
  enum class Crop {
    kNone,
    kTorchvision,  // centre crop, offset rounded half to even, zero-padded where the image is smaller
    kHuggingFace,  // centre crop, offset floored, zero-padded where the image is smaller
  };
  int channels = 3;                             // of the tensor, 1 or 3
  Resize resize = Resize::kNone;                // how the size changes first
  int64_t resize_height = 0, resize_width = 0;  // in pixels
  Filter filter = Filter::kBicubic;             // of resizing
  Crop crop = Crop::kNone;                      // what is kept then
  int64_t crop_height = 0, crop_width = 0;      // in pixels
  std::vector<uint8_t> fill;                    // of padded pixels, one a channel; empty: zeros
  double rescale = 1.0 / 255;                   // 1 when do_rescale is off
  std::vector<float> mean, std;                 // one a channel; empty: not normalised
};

/// Writes the tensor, out: [channels, height, width], dense; the shape must be OutputShape's.
/// (x·rescale rounded to float, minus mean, divided by std) in float, which is what both libraries' arithmetic gives.
/// Throws Error for another shape, or where mean, std or fill do not have one number a channel.
void Apply(const Preprocess& preprocess, const Image& image, View<float> out);
/// The same with scratch memory of the caller's.
void Apply(const Preprocess& preprocess, const Image& image, Workspace& workspace, View<float> out);

/// The shape that Apply will write for an image of this height and width.
/// Throws Error when the resized image would have no pixels, or more than any model takes.
Shape OutputShape(const Preprocess& preprocess, int64_t height, int64_t width);

/// The shape that every image gets, where it is the same for all.
std::optional<Shape> FixedShape(const Preprocess& preprocess);

/// What of an image of this size Apply's output shows, in the image's pixels; beyond its border where the output is
/// padded. Throws Error as OutputShape does.
Rect SeenOf(const Preprocess& preprocess, int64_t height, int64_t width);

}  // namespace qkv::image
