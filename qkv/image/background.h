// Detects and inverts bright backgrounds: models trained on white strokes on black cannot read black on white.
#pragma once

#include "qkv/image/image.h"

namespace qkv::image {

/// True if the outermost pixels of the image are brighter than mid-grey on average.
bool HasBrightBorder(const Image& image);

/// The negative; alpha is unchanged.
Image Invert(const Image& image);
void Invert(const Image& image, Image& negative);  // which may be the image itself

}  // namespace qkv::image
