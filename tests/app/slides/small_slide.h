// Small slides for tests: a dark ellipse of grain on white, as a TIFF of tiles.
#pragma once

#include <tiffio.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/core/rng.h"

namespace qkv {

struct SmallSlide {
  uint32_t width = 1024, height = 768;
  double mpp = 0.5;       // microns a pixel; 0: it says nothing
  int damaged_tile = -1;  // its compressed bytes are overwritten
  bool tissue = true;
};

inline void WriteSmallSlide(const std::filesystem::path& path, const SmallSlide& slide = {}) {
  constexpr uint32_t kSide = 256;
  const std::unique_ptr<TIFF, void (*)(TIFF*)> tiff(TIFFOpen(path.c_str(), "w"), TIFFClose);
  Require(tiff != nullptr, "cannot write {}", path.string());
  TIFFSetField(tiff.get(), TIFFTAG_IMAGEWIDTH, slide.width);
  TIFFSetField(tiff.get(), TIFFTAG_IMAGELENGTH, slide.height);
  TIFFSetField(tiff.get(), TIFFTAG_TILEWIDTH, kSide);
  TIFFSetField(tiff.get(), TIFFTAG_TILELENGTH, kSide);
  TIFFSetField(tiff.get(), TIFFTAG_BITSPERSAMPLE, 8);
  TIFFSetField(tiff.get(), TIFFTAG_SAMPLESPERPIXEL, 3);
  TIFFSetField(tiff.get(), TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_RGB);
  TIFFSetField(tiff.get(), TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
  TIFFSetField(tiff.get(), TIFFTAG_COMPRESSION, COMPRESSION_ADOBE_DEFLATE);
  if (slide.mpp > 0) {
    TIFFSetField(tiff.get(), TIFFTAG_RESOLUTIONUNIT, RESUNIT_CENTIMETER);
    TIFFSetField(tiff.get(), TIFFTAG_XRESOLUTION, 1e4 / slide.mpp);
    TIFFSetField(tiff.get(), TIFFTAG_YRESOLUTION, 1e4 / slide.mpp);
  }
  Rng rng(1);
  std::vector<uint8_t> tile(size_t{kSide} * kSide * 3);
  int index = 0;
  for (uint32_t top = 0; top < slide.height; top += kSide) {
    for (uint32_t left = 0; left < slide.width; left += kSide, ++index) {
      for (uint32_t i = 0; i < kSide * kSide; ++i) {
        const double x = (left + i % kSide - 0.5 * slide.width) / (0.4 * slide.width);
        const double y = (top + i / kSide - 0.5 * slide.height) / (0.4 * slide.height);
        const bool is_tissue = slide.tissue && x * x + y * y < 1;
        const auto grain = static_cast<uint8_t>(rng.Uniform() * 60);
        tile[3 * i] = is_tissue ? static_cast<uint8_t>(150 + grain) : 245;
        tile[3 * i + 1] = is_tissue ? static_cast<uint8_t>(60 + grain) : 245;
        tile[3 * i + 2] = is_tissue ? static_cast<uint8_t>(140 + grain) : 245;
      }
      if (index == slide.damaged_tile) {
        std::vector<uint8_t> noise(1000, 0x5A);
        TIFFWriteRawTile(tiff.get(), static_cast<uint32_t>(index), noise.data(), static_cast<tmsize_t>(noise.size()));
      } else {
        TIFFWriteEncodedTile(tiff.get(), static_cast<uint32_t>(index), tile.data(), static_cast<tmsize_t>(tile.size()));
      }
    }
  }
}

}  // namespace qkv
