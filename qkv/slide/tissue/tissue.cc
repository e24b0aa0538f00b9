#include "qkv/slide/tissue/tissue.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/core/memory.h"
#include "qkv/slide/tissue/mask.h"
#include "qkv/slide/tissue/outline.h"

namespace qkv::slide {
namespace {

// Otsu's threshold is kept within these: on glass alone it would split noise, beside dark stain leave out the pale.
// They are the thresholds of saturation that CLAM's presets have without Otsu's.
constexpr int kLeastThreshold = 8, kMostThreshold = 16;
// In pixels of the overview, as CLAM's presets: a median of 7 × 7, and gaps of 4.
constexpr int64_t kMedianRadius = 3, kCloseRadius = 2;
// Sides of the overview. Small pictures, such as one core of a tissue microarray, are looked at more closely.
constexpr int64_t kSideWithoutScale = 1024, kLeastSideOfTissue = 512, kMostSideOfTissue = 16384;

int64_t OverviewSide(const SlideFacts& facts, double mpp) {
  const int64_t side = std::max(facts.levels[0].width, facts.levels[0].height);
  if (!facts.mpp_x) return std::min(side, kSideWithoutScale);
  const double wanted = static_cast<double>(side) * *facts.mpp_x / mpp;
  const auto found = std::llround(std::min(wanted, static_cast<double>(kMostSideOfTissue)));
  return std::min<int64_t>(std::max<int64_t>(found, kLeastSideOfTissue), side);
}

Mask MaskOf(const image::Image& overview) {
  const int64_t width = overview.width(), height = overview.height();
  // Colour, its median, mask, and the two indices a pixel of its pieces.
  RequireMemory(static_cast<double>(width * height) * 20, "tissue: the overview");
  const std::vector<uint8_t> colour = MedianBlur(Colourfulness(overview), width, height, kMedianRadius);
  std::array<int64_t, 256> histogram{};
  for (const uint8_t value : colour) ++histogram[value];
  const int threshold = std::clamp(OtsuThreshold(histogram), kLeastThreshold, kMostThreshold);
  Mask mask{width, height, std::vector<uint8_t>(colour.size())};
  std::transform(colour.begin(), colour.end(), mask.inside.begin(),
                 [&](uint8_t value) { return static_cast<uint8_t>(value > threshold); });
  Close(mask, kCloseRadius);
  return mask;
}

}  // namespace

Tissue FindTissue(const Slide& slide, const TissueOptions& options) {
  const SlideFacts& facts = slide.facts();
  Require(options.mpp > 0 && options.min_area >= 0 && options.min_hole >= 0,
          "tissue: expected microns a pixel above 0 and areas of 0 or more, got {}, {} and {}", options.mpp,
          options.min_area, options.min_hole);
  const auto positive = [](const std::optional<double>& mpp) { return !mpp || (std::isfinite(*mpp) && *mpp > 0); };
  Require(positive(facts.mpp_x) && positive(facts.mpp_y),
          "tissue: expected microns a pixel above 0, the slide says {} and {}; say its microns a pixel",
          facts.mpp_x.value_or(0), facts.mpp_y.value_or(0));
  const image::Image overview = ReadOverview(slide, OverviewSide(facts, options.mpp));
  Mask mask = MaskOf(overview);
  const double x_scale = static_cast<double>(facts.levels[0].width) / static_cast<double>(mask.width);
  const double y_scale = static_cast<double>(facts.levels[0].height) / static_cast<double>(mask.height);
  // Slides without a scale are taken to have the wanted one in their overview.
  const double mpp_x = facts.mpp_x ? *facts.mpp_x * x_scale : options.mpp;
  const double mpp_y = facts.mpp_y ? *facts.mpp_y * y_scale : mpp_x;
  constexpr double kSquareMicrons = 1e6;  // of a mm²
  const double pixels = kSquareMicrons / (mpp_x * mpp_y);
  Tidy(mask, options.min_area * pixels, options.min_hole * pixels, options.keep_holes);
  return {Outlines(mask, x_scale, y_scale)};
}

}  // namespace qkv::slide
