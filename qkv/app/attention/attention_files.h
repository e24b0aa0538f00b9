// Attention maps as files: a picture, arrays, or a page to explore.
#pragma once

#include <cstdint>
#include <filesystem>

#include "qkv/app/attention/attend.h"
#include "qkv/image/draw.h"
#include "qkv/image/image.h"

namespace qkv::app {

struct MapStyle {
  image::Upsampling upsampling = image::Upsampling::kBicubic;  // of patches to pixels
  double opacity = 0.6;                                        // of the colours over the photo
  int64_t side = 768;                                          // longer side in pixels of a picture of one map
};

/// "nearest", "bilinear" or "bicubic". Throws Error that begins with `option` otherwise.
image::Upsampling ParseUpsampling(std::string_view name, std::string_view option);

/// The maps of the first query over the photo: one overlay, or a sheet with a row for each block and a column for each
/// head.
image::Image Picture(const AttentionMaps& maps, const MapStyle& style);

/// Writes the file, whole or not at all: .npy has the weights; .safetensors has "weights", "maps" (the part of the
/// patches, [layers, heads, Q, height, width]) and "prefix" (the part of the other tokens), with Facts as metadata.
void WriteMaps(const AttentionMaps& maps, MapFormat format, const MapStyle& style, const std::filesystem::path& file);

}  // namespace qkv::app
