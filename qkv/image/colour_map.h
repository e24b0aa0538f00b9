// Numbers to colours. Both maps are computed, not tabulated: curves in Oklab (Ottosson 2020, a colour space in which
// equal distances look equally far apart), walked in equal steps.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace qkv::image {

/// Red, green and blue, sRGB.
using Colour = std::array<uint8_t, 3>;

enum class ColourMap {
  kSequential,  // dark violet, blue, green, bright yellow; ever lighter, so it can be read without colours
  kDiverging,   // blue, nearly white in the middle, red; equally dark at both ends
};

/// The colour of x, 0 … 1; what is beyond gets that of the nearer end, NaN a middle grey that is in neither map.
Colour ColourAt(ColourMap map, double x);

/// "#1b7298"
std::string Hex(const Colour& colour);

}  // namespace qkv::image
