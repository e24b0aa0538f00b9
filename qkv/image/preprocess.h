// Converts a decoded image to a model's input tensor, bit-identical to the original pipelines. Not here: parsing of the
// libraries' configuration files (model/config/preprocess_config.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "qkv/core/tensor.h"
#include "qkv/image/image.h"
#include "qkv/image/rect.h"
#include "qkv/image/resize.h"

namespace qkv::image {

/// Preprocessing steps, in this order: resize, crop or pad, rescale, normalise.
struct Preprocess {
  /// The size of the resized image.
  enum class Resize {
    kNone,
    kExact,         // to resize_height × resize_width, aspect ratio lost
    kShortestEdge,  // the shorter edge to resize_height, the longer one in proportion, truncated
    /// As kShortestEdge, but the longer edge not beyond resize_width; then both down to multiples of resize_multiple
    /// (YOLOS).
    kEdges,
    kFit,    // both edges fit in resize_height × resize_width, rounded half to even (timm's "border")
    kCover,  // both edges cover it, rounded half to even (timm's "center" for a non-square target)
  };
  /// The part of the resized image that is kept.
  enum class Crop {
    kNone,
    kTorchvision,  // centre crop, offset rounded half to even, zero-padded where the image is smaller
    kHuggingFace,  // centre crop, offset floored, zero-padded where the image is smaller
    kCorner,       // the top left corner, zero-padded at the bottom and right where the image is smaller
    kWhole,        // the centre whose sides are the greatest multiples of crop_height and crop_width
  };
  int channels = 3;                             // of the tensor, 1 or 3
  Resize resize = Resize::kNone;                // first step
  int64_t resize_height = 0, resize_width = 0;  // in pixels
  int64_t resize_multiple = 1;                  // of kEdges, in pixels
  Filter filter = Filter::kBicubic;             // of resizing
  Crop crop = Crop::kNone;                      // second step
  int64_t crop_height = 0, crop_width = 0;      // in pixels
  // The resized image can be seen as squares of the crop's size that overlap along its longer side (EoMT): see Squares.
  bool squares = false;
  std::vector<uint8_t> fill;     // of padded pixels, one per channel; empty: zeros
  double rescale = 1.0 / 255;    // 1 if do_rescale is off
  std::vector<float> mean, std;  // one per channel; empty: not normalised
};

/// Writes the tensor, out: [channels, height, width], dense; its shape must be OutputShape's. In float: x·rescale
/// rounded to float, minus mean, divided by std, as both libraries compute it. Throws Error for another shape, or if
/// mean, std or fill do not have one value per channel.
void Apply(const Preprocess& preprocess, const Image& image, View<float> out);
/// The same with the caller's scratch memory.
void Apply(const Preprocess& preprocess, const Image& image, Workspace& workspace, View<float> out);

/// The shape that Apply writes for an image of this size. Throws Error if the resized image would be empty, exceed the
/// limit, or be smaller than what kWhole takes multiples of.
Shape OutputShape(const Preprocess& preprocess, int64_t height, int64_t width);

/// Size of a resized image, before the crop.
struct ResizedSize {
  int64_t height = 0, width = 0;  // in pixels
};
/// That of an image of this size. Throws Error as OutputShape.
ResizedSize SizeAfterResize(const Preprocess& preprocess, int64_t height, int64_t width);

/// Where the squares of an image of this size begin along the longer side of the resized image, in pixels: the least
/// number that covers it, nearly evenly spread, as EoMT's processor computes them. Throws Error if the preprocessing
/// has none, or if the shorter side is not that of the squares.
std::vector<int64_t> Squares(const Preprocess& preprocess, int64_t height, int64_t width);

/// As Apply, for the square that begins at `start` instead of the crop.
void ApplySquare(const Preprocess& preprocess, const Image& image, int64_t start, Workspace& workspace,
                 View<float> out);

/// The output shape, if it is the same for all images.
std::optional<Shape> FixedShape(const Preprocess& preprocess);

/// The part of an image of this size that Apply's output shows, in image pixels; it exceeds the image if the output is
/// padded. Throws Error as OutputShape.
Rect VisibleRect(const Preprocess& preprocess, int64_t height, int64_t width);

}  // namespace qkv::image
