// Draws maps of patches over photos.
#pragma once

#include "qkv/image/draw.h"

namespace qkv::app {

struct Backdrop {
  image::Image photo;  // RGB
  image::Rect where;   // the area of the patches, in pixels of the photo
};

/// Resizes the photo to a longer side of `side` pixels. `where`: the area of the patches in the original.
Backdrop FitBackdrop(const image::Image& photo, const image::Rect& where, int64_t side);

/// Draws map [rows, columns] of patches; colours range from its least to its greatest value.
image::Image Overlay(const Backdrop& backdrop, View<const float> map, image::HeatStyle style = {});

/// Frames one patch of a grid of rows x columns over `where`, in white with a dark edge.
void FramePatch(image::Image& picture, const image::Rect& where, int64_t rows, int64_t columns, int64_t patch);

}  // namespace qkv::app
