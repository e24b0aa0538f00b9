// Applies EXIF orientations. Internal to qkv/image.
#pragma once

#include "qkv/image/image.h"

namespace qkv::image {

/// Rotates or mirrors the image by an EXIF orientation, 1…8 (other values are ignored), as Pillow's exif_transpose. If
/// the image changes, its memory is swapped with `spare`.
void ApplyOrientation(Image& image, int orientation, Tensor<uint8_t>& spare);

}  // namespace qkv::image
