// Sizes that the coded pictures of a HEIC file declare. Internal to qkv/image.
#pragma once

#include <cstdint>

#include "qkv/image/codec.h"

namespace qkv::image {

/// The largest number of pixels that any HEVC sequence parameter set in the file declares (ITU-T H.265, 7.3.2.2),
/// wherever it is: libde265 allocates by it, whatever the container says. 0 if there is none. Throws Error as
/// CheckSize.
int64_t HevcPixels(const Source& source);

}  // namespace qkv::image
