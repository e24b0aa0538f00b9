// Tells slides and other pictures in levels among TIFF files. Internal to qkv/image.
#pragma once

#include <tiffio.h>

#include <string_view>

namespace qkv::image {

/// "a slide", "a picture in levels", or nothing for any other file. tiff: at its first directory, where it stays.
std::string_view KindInLevels(TIFF* tiff);

}  // namespace qkv::image
