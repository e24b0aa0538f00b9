// data/imagenet.tsv inside the library, as gzip compresses it.
#pragma once

#include <string_view>

namespace qkv::builtin {

std::string_view CompressedImageNetTable();

}  // namespace qkv::builtin
