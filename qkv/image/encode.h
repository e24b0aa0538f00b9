// Pictures to files.
#pragma once

#include <filesystem>
#include <string>

#include "qkv/image/image.h"

namespace qkv::image {

/// A PNG of eight bits a sample, compressed without loss. Throws Error when the image has no pixels.
std::string EncodePng(const Image& image);

/// The same as a file, written whole or not at all.
void WritePng(const std::filesystem::path& path, const Image& image);

}  // namespace qkv::image
