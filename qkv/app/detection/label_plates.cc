#include "qkv/app/detection/label_plates.h"

#include "qkv/app/detection/class_colours.h"
#include "qkv/core/text.h"
#include "qkv/image/draw.h"

namespace qkv::app {
namespace {

// Height of a line of text in pixels, below which it is hard to read.
constexpr int64_t kLeastText = 10;

}  // namespace

PlateSizes::PlateSizes(const image::Image& photo) {
  const double side = static_cast<double>(photo.height() + photo.width()) / 2;
  line = std::max(1.0, std::round(side * 0.006));
  shade = std::max(0.75, line / 4);
  radius = 1.5 * line;
  const auto wanted = std::max<int64_t>(kLeastText, std::lround(side * 0.027));
  while (image::TextHeight(text + 1) <= wanted) ++text;
  margin_y = std::max<int64_t>(1, image::TextHeight(text) / 8);
  margin_x = std::max<int64_t>(2, image::TextHeight(text) / 3);
}

double PlateSizes::Height() const { return static_cast<double>(image::TextHeight(text) + 2 * margin_y); }

double PlateSizes::Width(std::string_view text_of_plate) const {
  return static_cast<double>(image::TextWidth(text_of_plate, text) + 2 * margin_x);
}

double DistanceToEdge(const image::Rect& rect, double radius, double y, double x) {
  radius = std::min({radius, rect.height / 2, rect.width / 2});
  const double down = std::abs(y - rect.y(0.5)) - rect.height / 2 + radius;
  const double across = std::abs(x - rect.x(0.5)) - rect.width / 2 + radius;
  return std::hypot(std::max(down, 0.0), std::max(across, 0.0)) + std::min(std::max(down, across), 0.0) - radius;
}

std::string FitLabel(std::string_view name, const std::string& score, const PlateSizes& sizes, int64_t width) {
  const auto fits = [&](const std::string& text) { return sizes.Width(text) <= static_cast<double>(width); };
  const std::string shown = Printable(name, 100);
  const std::string whole = shown.empty() || score.empty() ? shown + score : shown + " " + score;
  if (fits(whole)) return whole;
  const std::string shortened = image::ShortenText(shown, sizes.text, width - 2 * sizes.margin_x);
  return fits(shortened) ? shortened : "";
}

void DrawPlate(image::Image& image, const std::string& text, const image::Rect& plate, const PlateSizes& sizes,
               const image::Colour& colour) {
  const double rim = std::ceil(sizes.shade);
  ForPixels(image, plate.top - rim, plate.left - rim, Bottom(plate) + rim, Right(plate) + rim,
            [&](uint8_t* pixel, double y, double x) {
              const double outside = DistanceToEdge(plate, sizes.radius, y, x);
              Mix(pixel, kShade, kShadeOpacity * Coverage(outside - sizes.shade));
              Mix(pixel, colour, Coverage(outside));
            });
  image::DrawText(image, text, std::lround(plate.top) + sizes.margin_y, std::lround(plate.left) + sizes.margin_x,
                  sizes.text, TextColourOn(colour));
}

}  // namespace qkv::app
