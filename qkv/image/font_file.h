// The font of labels, inside the library. Internal to qkv/image.
#pragma once

#include <string_view>

namespace qkv::image {

/// DejaVu Sans as TrueType.
std::string_view FontFile();

}  // namespace qkv::image
