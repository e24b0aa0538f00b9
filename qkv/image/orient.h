// Turning a picture the way its EXIF orientation says. Internal to qkv/image.
#pragma once

#include "qkv/image/image.h"

namespace qkv::image {

/// Turns or mirrors the image by an EXIF orientation, 1…8 (others change nothing), as Pillow's exif_transpose.
/// Where it does, `spare` changes places with the image's memory.
void TurnUpright(Image& image, int orientation, Tensor<uint8_t>& spare);

}  // namespace qkv::image
