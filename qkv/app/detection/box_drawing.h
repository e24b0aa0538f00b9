// Draws a detector's boxes on a photo.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "qkv/image/image.h"
#include "qkv/image/rect.h"

namespace qkv::app {

struct DrawnBox {
  image::Rect box;   // in pixels of the photo
  std::string name;  // of the class; may be empty
  double score = 0;
  int64_t class_index = 0;  // for the colour
};

/// Boxes with more than this many better ones get no label: the labels would hide the photo.
inline constexpr size_t kMaxBoxLabels = 300;

/// Frames in the colours of the classes, each with a label ("cat 0.93"); lines and letters grow with the photo. Boxes
/// are clipped to the photo, and left out if they are outside. Better scores are drawn over worse ones. A label is
/// above its box, or near it where it stays in the photo and hides no other label if possible; it is shortened if the
/// photo is narrower. Returns RGB of the photo's size. Throws Error if a box is not finite.
image::Image DrawBoxes(const image::Image& photo, std::span<const DrawnBox> boxes);

}  // namespace qkv::app
