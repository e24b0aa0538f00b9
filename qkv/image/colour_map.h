// Colour maps. Both are computed, not tabulated: curves in Oklab (Ottosson 2020, a perceptually uniform colour space),
// sampled at equal arc length.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace qkv::image {

/// Red, green and blue in sRGB.
using Colour = std::array<uint8_t, 3>;

enum class ColourMap {
  kSequential,  // dark violet, blue, green, bright yellow; monotonic lightness, so it is readable without colour
  kDiverging,   // blue, near-white centre, red; both ends equally dark
};

/// The colour of x, 0 … 1, clamped; NaN gives a middle grey that is in neither map.
Colour ColourAt(ColourMap map, double x);

/// "#1b7298"
std::string Hex(const Colour& colour);

}  // namespace qkv::image
