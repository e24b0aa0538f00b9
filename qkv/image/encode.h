// Encodes images to files.
#pragma once

#include <filesystem>
#include <string>

#include "qkv/image/image.h"

namespace qkv::image {

/// Encodes a PNG of eight bits per sample. Throws Error if the image has no pixels.
std::string EncodePng(const Image& image);

/// The same to a file, written atomically.
void WritePng(const std::filesystem::path& path, const Image& image);

}  // namespace qkv::image
