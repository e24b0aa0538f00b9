// Labels on photos: text on a plate with round corners and a dark rim; lines and letters grow with the photo.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "qkv/image/colour_map.h"
#include "qkv/image/image.h"
#include "qkv/image/rect.h"
#include "qkv/image/runs.h"

namespace qkv::app {

/// Sizes in pixels, from the mean side of the photo.
struct PlateSizes {
  explicit PlateSizes(const image::Image& photo);

  double line, shade, radius;  // of a frame's corners
  int text = 1;                // of DrawText
  int64_t margin_x, margin_y;  // between the text and the edge of its plate

  /// Size of a plate.
  double Height() const;
  double Width(std::string_view text_of_plate) const;
};

/// Dark rims separate what is drawn from a background of its colour.
inline constexpr image::Colour kShade = {0, 0, 0};
inline constexpr double kShadeOpacity = 0.4;

inline double Right(const image::Rect& rect) { return rect.left + rect.width; }
inline double Bottom(const image::Rect& rect) { return rect.top + rect.height; }

/// Signed distance from a point to the edge of a rectangle with round corners, negative inside.
double DistanceToEdge(const image::Rect& rect, double radius, double y, double x);

/// The share of a pixel within an edge at this signed distance from its centre.
inline double Coverage(double distance) { return std::clamp(0.5 - distance, 0.0, 1.0); }

/// Moves an RGB pixel towards a colour.
inline void Mix(uint8_t* pixel, const image::Colour& colour, double opacity) {
  for (size_t c = 0; c < 3; ++c) {
    pixel[c] = static_cast<uint8_t>(std::lround(pixel[c] + (colour[c] - pixel[c]) * opacity));
  }
}

/// Steps of drawing a pixel, for Spend: roots, roundings.
inline constexpr int64_t kStepsOfMixing = 4;

/// Calls draw(pixel, y, x) for the centres of the pixels in rows and columns [from, to), clipped to the image. Can be
/// given up (core/work.h).
template <typename F>
void ForPixels(image::Image& image, double top, double left, double bottom, double right, const F& draw) {
  const auto limit = [](double x, int64_t size) { return std::clamp<int64_t>(std::lround(x), 0, size); };
  for (int64_t y = limit(top, image.height()); y < limit(bottom, image.height()); ++y) {
    const int64_t first = limit(left, image.width());
    image::ForEachRun(limit(right, image.width()) - first, [&](int64_t from, int64_t to) {
      Spend(kStepsOfMixing * (to - from));
      for (int64_t x = first + from; x < first + to; ++x) {
        draw(image.pixels.view().at(y, x), static_cast<double>(y) + 0.5, static_cast<double>(x) + 0.5);
      }
    });
  }
}

/// The longest form of a label that fits into `width` pixels: name and score, or the name shortened; empty if none
/// does.
std::string FitLabel(std::string_view name, const std::string& score, const PlateSizes& sizes, int64_t width);

/// Draws a label on an RGB image.
void DrawPlate(image::Image& image, const std::string& text, const image::Rect& plate, const PlateSizes& sizes,
               const image::Colour& colour);

}  // namespace qkv::app
