#include "qkv/app/detection/box_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "qkv/app/detection/class_colours.h"
#include "qkv/app/detection/label_plates.h"
#include "qkv/core/error.h"
#include "qkv/core/text.h"
#include "qkv/core/work.h"
#include "qkv/image/draw.h"

namespace qkv::app {
namespace {

using image::Colour;
using image::Image;
using image::Rect;

// A box as it is drawn.
struct Drawing {
  const DrawnBox* box = nullptr;
  Rect frame;         // outer edges, in whole pixels
  std::string label;  // empty: none
  Rect plate;         // under the label
};

double Area(const Rect& rect) { return rect.height * rect.width; }

double CommonArea(const Rect& a, const Rect& b) {
  return std::max(0.0, std::min(Right(a), Right(b)) - std::max(a.left, b.left)) *
         std::max(0.0, std::min(Bottom(a), Bottom(b)) - std::max(a.top, b.top));
}

// A frame with a dark rim, which separates it from a background of its colour.
void DrawFrame(Image& image, const Rect& frame, const PlateSizes& sizes, const Colour& colour) {
  const auto draw = [&](uint8_t* pixel, double y, double x) {
    const double outside = DistanceToEdge(frame, sizes.radius, y, x), inside = -sizes.line - outside;
    Mix(pixel, kShade, kShadeOpacity * Coverage(outside - sizes.shade) * Coverage(inside - sizes.shade));
    Mix(pixel, colour, Coverage(outside) * Coverage(inside));
  };
  // Four strips, which are all but the empty interior.
  const double rim = std::ceil(sizes.shade), width = std::ceil(sizes.line + sizes.radius) + rim;
  const double top = frame.top - rim, left = frame.left - rim, bottom = Bottom(frame) + rim, right = Right(frame) + rim;
  const double first = std::min(frame.top + width, bottom), last = std::max(Bottom(frame) - width, first);
  const double near = std::min(frame.left + width, right), far = std::max(Right(frame) - width, near);
  ForPixels(image, top, left, first, right, draw);
  ForPixels(image, first, left, last, near, draw);
  ForPixels(image, first, far, last, right, draw);
  ForPixels(image, last, left, bottom, right, draw);
}

// Chooses places for labels one after the other, the best box first.
class LabelPlacer {
 public:
  // drawings: boxes with labels.
  LabelPlacer(const Image& photo, std::span<const Drawing> drawings, const PlateSizes& sizes)
      : height_(static_cast<double>(photo.height())),
        width_(static_cast<double>(photo.width())),
        drawings_(drawings),
        line_(sizes.line) {}

  // The plate's place, of the same size, in the photo.
  Rect Place(const Drawing& drawing) {
    const Rect& frame = drawing.frame;
    best_ = drawing.plate;
    least_ = std::numeric_limits<double>::infinity();
    const double height = drawing.plate.height;
    const double above = frame.top - height, inside = frame.top + line_, below = Bottom(frame);
    const double bottom = below - line_ - height;
    // A cost is the share of the plate that would hide other plates; these small ones only order what hides nothing.
    TryRow(drawing, above, 0);
    TryRow(drawing, inside, 0.03);
    TryRow(drawing, below, 0.05);
    TryRow(drawing, bottom, 0.06);
    // In a crowd: farther away.
    for (int i = 1; i <= 4 && least_ > 0.3; ++i) {
      TryRow(drawing, above - i * height, 0.1 + 0.05 * i);
      TryRow(drawing, inside + i * height, 0.1 + 0.05 * i);
      TryRow(drawing, below + i * height, 0.1 + 0.05 * i);
    }
    placed_.push_back(best_);
    return best_;
  }

 private:
  // The left edge first, then others to the right one.
  void TryRow(const Drawing& drawing, double top, double cost) {
    constexpr int kPlaces = 5;
    const double slack = drawing.frame.width - drawing.plate.width;
    for (int i = 0; i < kPlaces; ++i)
      Try(drawing, top, drawing.frame.left + slack * i / (kPlaces - 1), cost + 0.01 * i);
  }

  void Try(const Drawing& drawing, double top, double left, double cost) {
    Rect plate = drawing.plate;
    plate.top = std::round(std::clamp(top, 0.0, height_ - plate.height));
    plate.left = std::round(std::clamp(left, 0.0, width_ - plate.width));
    cost += (std::abs(plate.top - top) + 0.2 * std::abs(plate.left - left)) / plate.height * 0.1;
    if (cost >= least_) return;
    Spend(std::ssize(placed_) + std::ssize(drawings_));
    for (const Rect& other : placed_) cost += 2 * CommonArea(plate, other) / Area(plate);
    for (const Drawing& other : drawings_) {
      // A part of another object may be covered; the object's own box only if it is about as small as the label.
      cost += (&other == &drawing ? 0.3 : 0.5) * CommonArea(plate, other.frame) / std::max(1.0, Area(other.frame));
    }
    if (cost >= least_) return;
    least_ = cost;
    best_ = plate;
  }

  const double height_, width_;
  const std::span<const Drawing> drawings_;
  const double line_;
  std::vector<Rect> placed_;
  Rect best_;
  double least_ = 0;
};

// The frame's outer edges, around the box but within the photo.
Rect FrameOf(const Rect& box, const Image& photo, double line) {
  const auto edge = [&](double x, double outwards, int64_t size) {
    return std::clamp(std::round(x + outwards * line / 2), 0.0, static_cast<double>(size));
  };
  const double top = edge(box.top, -1, photo.height()), left = edge(box.left, -1, photo.width());
  return {.top = top,
          .left = left,
          .height = edge(Bottom(box), 1, photo.height()) - top,
          .width = edge(Right(box), 1, photo.width()) - left};
}

bool IsOutside(const Rect& box, const Image& photo) {
  return box.top >= static_cast<double>(photo.height()) || box.left >= static_cast<double>(photo.width()) ||
         Bottom(box) <= 0 || Right(box) <= 0;
}

}  // namespace

Image DrawBoxes(const Image& photo, std::span<const DrawnBox> boxes) {
  Image picture = image::ToChannels(photo, 3);
  const PlateSizes sizes(photo);
  std::vector<Drawing> drawings;  // the best first
  for (const DrawnBox& box : boxes) {
    const Rect& rect = box.box;
    Require(std::isfinite(rect.top + rect.left + rect.height + rect.width) && std::isfinite(box.score),
            "draw boxes: the box of \"{}\" is not finite", box.name);
    if (IsOutside(rect, photo)) continue;
    Drawing& drawing = drawings.emplace_back();
    drawing.box = &box;
    drawing.frame = FrameOf(rect, photo, sizes.line);
  }
  std::ranges::stable_sort(drawings, [](const auto& a, const auto& b) { return a.box->score > b.box->score; });

  const std::span labelled = std::span(drawings).first(std::min(drawings.size(), kMaxBoxLabels));
  LabelPlacer placer(photo, labelled, sizes);
  const auto height = static_cast<double>(image::TextHeight(sizes.text) + 2 * sizes.margin_y);
  for (Drawing& drawing : labelled) {
    drawing.label = FitLabel(drawing.box->name, fmt::format("{:.2f}", drawing.box->score), sizes, photo.width());
    if (height > static_cast<double>(photo.height())) drawing.label.clear();
    if (drawing.label.empty()) continue;
    const int64_t width = image::TextWidth(drawing.label, sizes.text) + 2 * sizes.margin_x;
    drawing.plate = {.height = height, .width = static_cast<double>(width)};
    drawing.plate = placer.Place(drawing);
  }
  for (size_t i = drawings.size(); i-- > 0;) {
    DrawFrame(picture, drawings[i].frame, sizes, ClassColour(drawings[i].box->class_index));
  }
  for (size_t i = drawings.size(); i-- > 0;) {
    const Drawing& drawing = drawings[i];
    if (drawing.label.empty()) continue;
    DrawPlate(picture, drawing.label, drawing.plate, sizes, ClassColour(drawing.box->class_index));
  }
  return picture;
}

}  // namespace qkv::app
