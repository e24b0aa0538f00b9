// Dark or bright background: models trained on white strokes on black cannot read black ones on white.
#pragma once

#include "qkv/image/image.h"

namespace qkv::image {

/// True when the outermost pixels of the picture are brighter than mid-grey on average.
bool HasBrightBorder(const Image& image);

/// The negative; alpha stays.
Image Invert(const Image& image);
void Invert(const Image& image, Image& negative);

}  // namespace qkv::image
