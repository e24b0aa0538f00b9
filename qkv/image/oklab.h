// Oklab, a perceptually uniform colour space. https://bottosson.github.io/posts/oklab
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "qkv/image/colour_map.h"

namespace qkv::image {

/// Lightness (0 … 1), green to red, blue to yellow (about −0.3 … 0.3).
using Lab = std::array<double, 3>;

/// Perceived difference of two colours.
inline double LabDistance(const Lab& a, const Lab& b) { return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]); }

/// Linear red, green and blue; outside of 0 … 1 if sRGB cannot show the colour.
inline std::array<double, 3> LabToLinear(const Lab& lab) {
  const auto cube = [](double x) { return x * x * x; };
  const double l = cube(lab[0] + 0.3963377774 * lab[1] + 0.2158037573 * lab[2]);
  const double m = cube(lab[0] - 0.1055613458 * lab[1] - 0.0638541728 * lab[2]);
  const double s = cube(lab[0] - 0.0894841775 * lab[1] - 1.2914855480 * lab[2]);
  return {4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
          -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
          -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s};
}

/// The same with the curve of IEC 61966-2-1, clamped.
inline Colour LabToSrgb(const Lab& lab) {
  const std::array<double, 3> linear = LabToLinear(lab);
  Colour colour;
  for (size_t i = 0; i < 3; ++i) {
    const double x = linear[i] <= 0.0031308 ? 12.92 * linear[i] : 1.055 * std::pow(linear[i], 1 / 2.4) - 0.055;
    colour[i] = static_cast<uint8_t>(std::lround(255 * std::clamp(x, 0.0, 1.0)));
  }
  return colour;
}

}  // namespace qkv::image
