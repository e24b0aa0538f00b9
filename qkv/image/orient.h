// Turning a picture the way its EXIF orientation says. Internal to qkv/image.
#pragma once

#include "qkv/image/image.h"

namespace qkv::image {

/// The image turned or mirrored by an EXIF orientation, 1…8 (others change nothing), as Pillow's exif_transpose.
Image TurnUpright(Image image, int orientation);

}  // namespace qkv::image
