// Small pictures of slides.
#pragma once

#include <filesystem>

#include "qkv/image/image.h"
#include "qkv/slide/read/slide.h"
#include "qkv/slide/tissue/tissue.h"

namespace qkv::app {

/// Writes an RGB picture as WebP, whole or not at all, and makes its folder.
void WritePicture(const std::filesystem::path& path, const image::Image& picture);

/// `overview`, the picture of a slide, with the borders of its tissue: green, those of holes red.
image::Image DrawTissue(image::Image overview, const slide::SlideFacts& slide, const slide::Tissue& tissue);

}  // namespace qkv::app
