#include "qkv/image/colour_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "qkv/image/oklab.h"

namespace qkv::image {
namespace {

constexpr int kEntries = 256;
// Samples of the curve before it is resampled at equal arc length.
constexpr int kSamples = 2048;

// Control points of a Bézier curve in Oklab, found by a search for colourful curves that stay inside sRGB.
constexpr std::array<Lab, 5> kSequentialCurve = {
    {{.25, .058, -.111}, {.42, .051, -.237}, {.60, -.160, -.016}, {.78, -.207, .163}, {.94, -.072, .175}}};
constexpr Lab kBlue = {.40, -.025, -.13}, kMiddle = {.96, 0, 0}, kRed = {.40, .14, .055};

Lab Between(const Lab& a, const Lab& b, double t) {
  Lab c;
  for (size_t i = 0; i < 3; ++i) c[i] = a[i] + (b[i] - a[i]) * t;
  return c;
}

// De Casteljau.
Lab SequentialCurve(double t) {
  auto points = kSequentialCurve;
  for (size_t left = points.size(); left > 1; --left) {
    for (size_t i = 0; i + 1 < left; ++i) points[i] = Between(points[i], points[i + 1], t);
  }
  return points[0];
}

std::array<Colour, kEntries> Sequential() {
  std::vector<double> length(kSamples + 1);  // arc length up to each sample
  for (int i = 1; i <= kSamples; ++i) {
    const auto at = static_cast<size_t>(i);
    length[at] =
        length[at - 1] + LabDistance(SequentialCurve(double(i - 1) / kSamples), SequentialCurve(double(i) / kSamples));
  }
  std::array<Colour, kEntries> colours;
  for (size_t i = 0; i < kEntries; ++i) {
    const double wanted = length.back() * static_cast<double>(i) / (kEntries - 1);
    const auto above = std::clamp<size_t>(
        static_cast<size_t>(std::lower_bound(length.begin(), length.end(), wanted) - length.begin()), 1, kSamples);
    const double fraction = (wanted - length[above - 1]) / (length[above] - length[above - 1]);
    colours[i] = LabToSrgb(SequentialCurve((static_cast<double>(above - 1) + fraction) / kSamples));
  }
  return colours;
}

std::array<Colour, kEntries> Diverging() {
  std::array<Colour, kEntries> colours;
  for (size_t i = 0; i < kEntries; ++i) {
    const double x = 2 * static_cast<double>(i) / (kEntries - 1) - 1;  // −1 … 1
    colours[i] = LabToSrgb(Between(kMiddle, x < 0 ? kBlue : kRed, std::abs(x)));
  }
  return colours;
}

}  // namespace

Colour ColourAt(ColourMap map, double x) {
  static const std::array<Colour, kEntries> sequential = Sequential(), diverging = Diverging();
  if (std::isnan(x)) return {128, 128, 128};
  const auto entry = static_cast<size_t>(std::lround(std::clamp(x, 0.0, 1.0) * (kEntries - 1)));
  return map == ColourMap::kSequential ? sequential[entry] : diverging[entry];
}

std::string Hex(const Colour& colour) { return fmt::format("#{:02x}{:02x}{:02x}", colour[0], colour[1], colour[2]); }

}  // namespace qkv::image
