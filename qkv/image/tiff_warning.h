// Which of libtiff's warnings are errors.
#pragma once

#include <string_view>

namespace qkv::image {

/// True for data that ends too early: libjpeg would fill the rest with grey, and libtiff would go on without the tag,
/// such as a palette. Others, such as those of unknown tags, do not matter.
inline bool IsFatalTiffWarning(std::string_view text) {
  return text.find("remature end of") != text.npos || text.find("IO error during reading") != text.npos;
}

}  // namespace qkv::image
