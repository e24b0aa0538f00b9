#include "qkv/image/tiff_slide.h"

#include <cstdint>
#include <cstdlib>

namespace qkv::image {
namespace {

constexpr uint32_t kHamamatsuTag = 65420;  // in every directory of an NDPI file
// A description or a packet of metadata names its scanner in its first elements.
constexpr size_t kSearched = 4096;

bool IsOfAScanner(TIFF* tiff) {
  const char* description = nullptr;
  if (TIFFGetField(tiff, TIFFTAG_IMAGEDESCRIPTION, &description) == 1 && description != nullptr) {
    const std::string_view text = std::string_view(description).substr(0, kSearched);
    if (text.starts_with("Aperio") || text.find("leica-microsystems.com/scn") != text.npos) return true;
  }
  uint32_t count = 0;
  const char* packet = nullptr;
  if (TIFFGetField(tiff, TIFFTAG_XMLPACKET, &count, &packet) == 1 && packet != nullptr) {  // Ventana's BIF
    if (std::string_view(packet, count).substr(0, kSearched).find("<iScan") != std::string_view::npos) return true;
  }
  return TIFFFindField(tiff, kHamamatsuTag, TIFF_ANY) != nullptr;
}

// The next directory is the same picture, smaller and in tiles too.
bool HasLevel(TIFF* tiff) {
  uint32_t width = 0, height = 0, next_width = 0, next_height = 0;
  TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width), TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height);
  uint16_t sub = 0;
  const uint64_t* places = nullptr;
  if (TIFFGetField(tiff, TIFFTAG_SUBIFD, &sub, &places) == 1 && sub > 0) return true;
  bool level = TIFFReadDirectory(tiff) == 1 && TIFFIsTiled(tiff) != 0 &&
               TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &next_width) == 1 &&
               TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &next_height) == 1 && next_width < width && next_height < height;
  // Sides are rounded to pixels, and by some writers to tiles.
  const double one = static_cast<double>(width) * next_height, other = static_cast<double>(height) * next_width;
  level = level && std::abs(one - other) <= 0.05 * one;
  TIFFSetDirectory(tiff, 0);
  return level;
}

}  // namespace

std::string_view KindInLevels(TIFF* tiff) {
  if (IsOfAScanner(tiff)) return "a slide";
  return TIFFIsTiled(tiff) != 0 && HasLevel(tiff) ? "a picture in levels" : "";
}

}  // namespace qkv::image
