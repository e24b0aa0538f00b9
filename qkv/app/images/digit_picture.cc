#include "qkv/app/images/digit_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <vector>

namespace qkv::app {
namespace {

constexpr int64_t kSmall = 4 * 28;         // pixels of a side
constexpr double kGrey = 12;               // mean difference of the greatest and the least channel, of 255
constexpr int kNear = 32;                  // levels from the median in each channel: paper has shades, JPEG has noise
constexpr double kPlain = 0.7;             // bold strokes fill up to 30 %
constexpr int kPale = 48;                  // greatest less least channel of paper and boards; sky and sea have more
constexpr double kMostPixels = 256 * 256;  // looked at

using Colour = std::array<uint8_t, 3>;

// Pixels at equal distances, without alpha.
std::vector<Colour> SamplePixels(const image::Image& image) {
  const int64_t channels = image.channels();
  const double all = static_cast<double>(image.height()) * static_cast<double>(image.width());
  const auto step = static_cast<int64_t>(std::max(1.0, std::ceil(std::sqrt(all / kMostPixels))));
  std::vector<Colour> colours;
  for (int64_t y = 0; y < image.height(); y += step) {
    for (int64_t x = 0; x < image.width(); x += step) {
      const uint8_t* p = image.pixels.data() + (y * image.width() + x) * channels;
      colours.push_back(channels < 3 ? Colour{p[0], p[0], p[0]} : Colour{p[0], p[1], p[2]});
    }
  }
  return colours;
}

// The median of each channel by itself.
Colour Median(const std::vector<Colour>& colours) {
  Colour median{};
  std::vector<uint8_t> levels(colours.size());
  const auto middle = levels.begin() + std::ssize(levels) / 2;
  for (size_t c = 0; c < median.size(); ++c) {
    std::ranges::transform(colours, levels.begin(), [c](const Colour& colour) { return colour[c]; });
    std::nth_element(levels.begin(), middle, levels.end());
    median[c] = *middle;
  }
  return median;
}

}  // namespace

std::string WhyNoDigit(const image::Image& image) {
  const std::vector<Colour> colours = SamplePixels(image);
  if (colours.empty()) return "";
  const auto count = static_cast<double>(colours.size());
  double chroma = 0;
  for (const Colour& colour : colours) chroma += std::ranges::max(colour) - std::ranges::min(colour);
  const bool grey = chroma / count <= kGrey, small = std::max(image.height(), image.width()) <= kSmall;
  if (grey && small) return "";
  const Colour median = Median(colours);
  const auto near = std::ranges::count_if(colours, [&](const Colour& colour) {
    const auto is_near = [&](size_t c) { return std::abs(int{colour[c]} - int{median[c]}) <= kNear; };
    return is_near(0) && is_near(1) && is_near(2);
  });
  const bool pale = std::ranges::max(median) - std::ranges::min(median) <= kPale;
  if (pale && static_cast<double>(near) >= kPlain * count) return "";
  return fmt::format("a {} picture of {}x{} pixels without a plain background", grey ? "grey" : "colour", image.width(),
                     image.height());
}

}  // namespace qkv::app
