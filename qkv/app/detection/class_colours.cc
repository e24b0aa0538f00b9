#include "qkv/app/detection/class_colours.h"

#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/image/oklab.h"

namespace qkv::app {
namespace {

using image::Lab;

// Neither dark nor near white, so that lines stand out from most photos; nor near grey.
constexpr double kLeastLightness = 0.50, kGreatestLightness = 0.90, kLeastChroma = 0.12;
constexpr double kLightnessStep = 0.04, kChromaStep = 0.03;
constexpr int kHues = 72;
// A vivid orange red, rare in nature.
constexpr Lab kFirst = {0.68, 0.17, 0.11};

bool IsShown(const Lab& lab) {
  for (const double x : image::LabToLinear(lab)) {
    if (x < 0 || x > 1) return false;
  }
  return true;
}

std::vector<Lab> CandidateColours() {
  std::vector<Lab> candidates;
  for (int i = 0; kLeastLightness + i * kLightnessStep <= kGreatestLightness; ++i) {
    for (int hue = 0; hue < kHues; ++hue) {
      const double angle = 2 * std::numbers::pi * hue / kHues;
      for (double chroma = kLeastChroma;; chroma += kChromaStep) {
        const Lab lab = {kLeastLightness + i * kLightnessStep, chroma * std::cos(angle), chroma * std::sin(angle)};
        if (!IsShown(lab)) break;
        candidates.push_back(lab);
      }
    }
  }
  return candidates;
}

// Farthest-first traversal (Gonzalez 1985).
std::array<image::Colour, kClassColours> ChooseColours() {
  const std::vector<Lab> candidates = CandidateColours();
  std::vector<double> distance(candidates.size(), std::numeric_limits<double>::infinity());  // to the nearest chosen
  std::array<image::Colour, kClassColours> colours;
  Lab chosen = kFirst;
  for (image::Colour& colour : colours) {
    colour = image::LabToSrgb(chosen);
    size_t farthest = 0;
    for (size_t i = 0; i < candidates.size(); ++i) {
      distance[i] = std::min(distance[i], image::LabDistance(chosen, candidates[i]));
      if (distance[i] > distance[farthest]) farthest = i;
    }
    chosen = candidates[farthest];
  }
  return colours;
}

// Relative luminance as WCAG 2.1 defines it, 0 … 1.
double RelativeLuminance(const image::Colour& colour) {
  constexpr std::array<double, 3> kWeights = {0.2126, 0.7152, 0.0722};
  double luminance = 0;
  for (size_t c = 0; c < 3; ++c) {
    const double x = colour[c] / 255.0;
    luminance += kWeights[c] * (x <= 0.04045 ? x / 12.92 : std::pow((x + 0.055) / 1.055, 2.4));
  }
  return luminance;
}

}  // namespace

image::Colour ClassColour(int64_t index) {
  static const std::array<image::Colour, kClassColours> colours = ChooseColours();
  Require(index >= 0, "class colour: expected an index of 0 or more, got {}", index);
  return colours[static_cast<size_t>(index % kClassColours)];
}

image::Colour TextColourOn(const image::Colour& background) {
  constexpr double kFlare = 0.05;  // of the definition of contrast
  const double luminance = RelativeLuminance(background) + kFlare;
  return luminance / kFlare >= (1 + kFlare) / luminance ? image::Colour{0, 0, 0} : image::Colour{255, 255, 255};
}

}  // namespace qkv::app
