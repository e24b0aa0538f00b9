// Encodes images to files.
#pragma once

#include <filesystem>
#include <string>

#include "qkv/image/image.h"

namespace qkv::image {

/// The most bytes of a PNG with rows of `stride` bytes, which encoding takes at a time.
int64_t PngBytes(int64_t height, int64_t stride);

/// Encodes a PNG of eight bits per sample. Throws Error if the image has no pixels. Can be given up (core/work.h).
std::string EncodePng(const Image& image);

/// Encodes a PNG of one channel of sixteen bits, [height, width], dense. Throws Error likewise.
std::string EncodeDeepPng(View<const uint16_t> grey);

/// Encodes a WebP with loss, for thumbnails in pages; quality: 0 to 100. Throws Error unless the image is RGB of at
/// most 16,383 pixels a side.
std::string EncodeWebp(const Image& image, float quality = 82);

/// A PNG to a file, written atomically.
void WritePng(const std::filesystem::path& path, const Image& image);

}  // namespace qkv::image
