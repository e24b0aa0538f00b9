#include "qkv/slide/heatmap/heatmap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "qkv/core/error.h"
#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"
#include "qkv/core/work.h"
#include "qkv/image/draw.h"

namespace qkv::slide {
namespace {

constexpr int64_t kLeastWidth = 480;  // of a legend that can be read
constexpr image::Colour kInk = {31, 35, 40};

image::Image Blank(int64_t height, int64_t width) {
  RequireMemory(3.0 * static_cast<double>(height) * static_cast<double>(width), "heatmap: the picture");
  image::Image picture{Tensor<uint8_t>::Uninitialised({height, width, 3})};
  std::fill_n(picture.pixels.data(), picture.pixels.size(), uint8_t{255});
  return picture;
}

void Colour(image::Image& picture, const image::Image& overview, const SlideFacts& facts, const HeatGrid& grid,
            const HeatmapStyle& style) {
  const double scale_x = static_cast<double>(facts.levels[0].width) / static_cast<double>(overview.width());
  const double scale_y = static_cast<double>(facts.levels[0].height) / static_cast<double>(overview.height());
  const double opacity = std::clamp(style.opacity, 0.0, 1.0);
  ParallelFor(overview.height(), 16, [&](int64_t begin, int64_t end) {
    for (int64_t y = begin; y < end; ++y) {
      CheckCancelled();
      uint8_t* const row = picture.pixels.data() + 3 * y * picture.width();
      std::copy_n(overview.pixels.data() + 3 * y * overview.width(), 3 * overview.width(), row);
      for (int64_t x = 0; x < overview.width(); ++x) {
        const double level0_x = (static_cast<double>(x) + 0.5) * scale_x;
        const double level0_y = (static_cast<double>(y) + 0.5) * scale_y;
        // Squares show what was computed; smoothed values have no squares to show.
        const float value =
            style.values == HeatValues::kBlurred ? grid.Smooth(level0_x, level0_y) : grid.At(level0_x, level0_y);
        if (std::isnan(value)) continue;
        const image::Colour colour = image::ColourAt(kHeatColours, value);
        for (size_t c = 0; c < 3; ++c) {
          uint8_t& sample = row[3 * x + static_cast<int64_t>(c)];
          sample = static_cast<uint8_t>(std::lround(opacity * colour[c] + (1 - opacity) * sample));
        }
      }
    }
  });
}

// The longest of 1, 2 and 5 times a power of ten that is at most `most` micrometres.
double RoundLength(double most) {
  const double power = std::pow(10, std::floor(std::log10(most)));
  for (const double factor : {5.0, 2.0}) {
    if (factor * power <= most) return factor * power;
  }
  return power;
}

// At the right end of the legend.
void DrawScale(image::Image& picture, double microns_a_pixel, int64_t top, int64_t right, int size) {
  const double length = RoundLength(microns_a_pixel * static_cast<double>(picture.width()) / 5);
  const auto width = static_cast<int64_t>(std::lround(length / microns_a_pixel));
  const std::string text = length < 1000 ? fmt::format("{:g} µm", length) : fmt::format("{:g} mm", length / 1000);
  image::Fill(picture, top + size / 2, right - width, std::max(2, size / 6), width, kInk);
  image::DrawText(picture, text, top + size, right - image::TextWidth(text, size), size, kInk);
}

void DrawLegend(image::Image& picture, int64_t top, int size, const HeatmapStyle& style) {
  const int64_t left = size, width = picture.width() * 2 / 5, line = image::TextHeight(size);
  for (int64_t x = 0; x < width; ++x) {
    const double value = static_cast<double>(x) / static_cast<double>(width - 1);
    image::Fill(picture, top + size / 2, left + x, size / 2, 1, image::ColourAt(kHeatColours, value));
  }
  const int64_t below = top + size + size / 4;
  image::DrawText(picture, style.low, below, left, size, kInk);
  image::DrawText(picture, style.high, below, left + width - image::TextWidth(style.high, size), size, kInk);
  const std::string title = image::ShortenText(style.title, size, picture.width() - 2 * left);
  image::DrawText(picture, title, below + line, left, size, kInk);
}

}  // namespace

HeatmapStyle StyleOf(const std::string& what, const TileScores& tiles, HeatValues values, double opacity) {
  HeatmapStyle style{.values = values, .opacity = opacity};
  if (values == HeatValues::kRaw) {
    const auto [least, greatest] = std::minmax_element(tiles.scores.begin(), tiles.scores.end());
    style.title = what;
    style.low = fmt::format("{:.3g}", *least);
    style.high = fmt::format("{:.3g}", *greatest);
  } else {
    style.title = what + (values == HeatValues::kRanked ? ", rank among tiles" : ", rank among tiles, smoothed");
    style.low = "lowest";
    style.high = "highest";
  }
  return style;
}

image::Image DrawHeatmap(const image::Image& overview, const SlideFacts& facts, const HeatGrid& grid,
                         const HeatmapStyle& style) {
  Require(!facts.levels.empty() && overview.channels() == 3, "heatmap: expected a slide with levels, in RGB");
  const int64_t width = std::max(overview.width(), kLeastWidth);
  const int size = static_cast<int>(std::clamp<int64_t>(width / 60, 12, 40));
  const int64_t legend = 2 * size + 2 * image::TextHeight(size);
  image::Image picture = Blank(overview.height() + legend, width);
  Colour(picture, overview, facts, grid, style);
  DrawLegend(picture, overview.height(), size, style);
  if (facts.mpp_x && *facts.mpp_x > 0) {
    const double microns =
        *facts.mpp_x * static_cast<double>(facts.levels[0].width) / static_cast<double>(overview.width());
    DrawScale(picture, microns, overview.height(), width - size, size);
  }
  return picture;
}

}  // namespace qkv::slide
