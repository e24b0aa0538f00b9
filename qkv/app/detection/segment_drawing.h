// Segments drawn on their photo, and the map of their ids as an image.
#pragma once

#include <span>
#include <string>

#include "qkv/app/detection/segmentation.h"
#include "qkv/image/image.h"

namespace qkv::app {

/// The text on a segment.
struct SegmentLabel {
  std::string name;
  std::string score;  // empty: none
};

/// More segments than this many greater ones get no label: the labels would hide the photo.
inline constexpr size_t kMaxSegmentLabels = 200;

/// The photo under the colours of the classes, segments of one class in shades of its colour, each with an outline and
/// a label where it is widest. A label that would hide another, or is much larger than its segment, is left out.
/// labels: one for each segment. Returns RGB of the photo's size. Throws Error if sizes do not fit.
image::Image DrawSegmentation(const image::Image& photo, const Segmentation& segmentation,
                              std::span<const SegmentLabel> labels);
/// Memory that this takes, in bytes, including the picture.
double SegmentationDrawingBytes(const image::Image& photo);

}  // namespace qkv::app
