#include "qkv/image/colour_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace qkv::image {
namespace {

using Lab = std::array<double, 3>;  // lightness, green to red, blue to yellow

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

double Distance(const Lab& a, const Lab& b) { return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]); }

// https://bottosson.github.io/posts/oklab: the matrices of its inverse, then the curve of IEC 61966-2-1.
Colour ToSrgb(const Lab& lab) {
  const auto cube = [](double x) { return x * x * x; };
  const double l = cube(lab[0] + 0.3963377774 * lab[1] + 0.2158037573 * lab[2]);
  const double m = cube(lab[0] - 0.1055613458 * lab[1] - 0.0638541728 * lab[2]);
  const double s = cube(lab[0] - 0.0894841775 * lab[1] - 1.2914855480 * lab[2]);
  const std::array<double, 3> linear = {4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
                                        -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
                                        -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s};
  Colour colour;
  for (size_t i = 0; i < 3; ++i) {
    const double x = linear[i] <= 0.0031308 ? 12.92 * linear[i] : 1.055 * std::pow(linear[i], 1 / 2.4) - 0.055;
    colour[i] = static_cast<uint8_t>(std::lround(255 * std::clamp(x, 0.0, 1.0)));
  }
  return colour;
}

std::array<Colour, kEntries> Sequential() {
  std::vector<double> length(kSamples + 1);  // arc length up to each sample
  for (int i = 1; i <= kSamples; ++i) {
    const auto at = static_cast<size_t>(i);
    length[at] =
        length[at - 1] + Distance(SequentialCurve(double(i - 1) / kSamples), SequentialCurve(double(i) / kSamples));
  }
  std::array<Colour, kEntries> colours;
  for (size_t i = 0; i < kEntries; ++i) {
    const double wanted = length.back() * static_cast<double>(i) / (kEntries - 1);
    const auto above = std::clamp<size_t>(
        static_cast<size_t>(std::lower_bound(length.begin(), length.end(), wanted) - length.begin()), 1, kSamples);
    const double fraction = (wanted - length[above - 1]) / (length[above] - length[above - 1]);
    colours[i] = ToSrgb(SequentialCurve((static_cast<double>(above - 1) + fraction) / kSamples));
  }
  return colours;
}

std::array<Colour, kEntries> Diverging() {
  std::array<Colour, kEntries> colours;
  for (size_t i = 0; i < kEntries; ++i) {
    const double x = 2 * static_cast<double>(i) / (kEntries - 1) - 1;  // −1 … 1
    colours[i] = ToSrgb(Between(kMiddle, x < 0 ? kBlue : kRed, std::abs(x)));
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
