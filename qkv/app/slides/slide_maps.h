// Where a head looked on a slide, as a picture and for QuPath.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>

#include "qkv/mil/head.h"
#include "qkv/slide/read/slide.h"

namespace qkv::app {

/// Writes PATH.png and PATH.geojson. coords: [tiles] at level 0; side: of a tile there.
void WriteMaps(const slide::Slide& slide, std::span<const std::array<int64_t, 2>> coords, int64_t side,
               const mil::Answer& answer, const std::filesystem::path& path);

}  // namespace qkv::app
