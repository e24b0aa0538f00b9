// Photos with maps of patches laid over them, as attend and train draw them.
#pragma once

#include "qkv/image/draw.h"

namespace qkv::cli {

struct Backdrop {
  image::Image photo;  // RGB
  image::Rect where;   // its patches
};

/// The photo, its longer side `side` pixels. `where`: its patches as it is.
Backdrop FitBackdrop(const image::Image& photo, const image::Rect& where, int64_t side);

/// map: [rows, columns] of patches, in colours from its least to its greatest value.
image::Image Overlay(const Backdrop& backdrop, View<const float> map, image::HeatStyle style = {});

}  // namespace qkv::cli
