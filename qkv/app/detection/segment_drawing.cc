#include "qkv/app/detection/segment_drawing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include "qkv/app/detection/class_colours.h"
#include "qkv/app/detection/label_plates.h"
#include "qkv/core/error.h"
#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"
#include "qkv/core/work.h"
#include "qkv/image/runs.h"

namespace qkv::app {
namespace {

using image::Colour;
using image::Image;
using image::Rect;

constexpr double kFillOpacity = 0.5, kOutlineOpacity = 0.9;
constexpr float kFar = std::numeric_limits<float>::max() / 4;

// The n-th segment of a class: its colour, then lighter and darker ones.
Colour ShadeOf(const Colour& colour, int64_t n) {
  constexpr double kSteps[] = {0, 0.4, -0.35, 0.2, -0.18, 0.6, -0.5};
  const double step = kSteps[static_cast<size_t>(n) % std::size(kSteps)];
  Colour shade = colour;
  const uint8_t towards = step > 0 ? 255 : 0;
  for (uint8_t& c : shade) c = static_cast<uint8_t>(std::lround(c + (towards - c) * std::abs(step)));
  return shade;
}

// The colour of each segment.
std::vector<Colour> Colours(std::span<const Segment> segments) {
  std::map<int64_t, int64_t> seen;
  std::vector<Colour> colours;
  for (const Segment& segment : segments) {
    colours.push_back(ShadeOf(ClassColour(segment.index), seen[segment.index]++));
  }
  return colours;
}

// Distances to the nearest pixel of another id, about: steps of 1 and √2 (Borgefors 1986). Beside one it is 1.
Tensor<float> DistancesToOthers(View<const int32_t> ids) {
  constexpr float kDiagonal = 1.41421356f;
  const int64_t height = ids.dim(0), width = ids.dim(1);
  auto distances = Tensor<float>::Uninitialised({height, width});
  const View<float> d = distances;
  const auto pass = [&](int64_t from_y, int64_t step) {
    for (int64_t i = 0; i < height; ++i) {
      const int64_t y = from_y + i * step, before = y - step;
      const bool has_before = before >= 0 && before < height;
      for (int64_t begin = 0; begin < width; begin += image::kRunPixels) {
        const int64_t end = std::min(width, begin + image::kRunPixels);
        Spend(end - begin);
        for (int64_t j = begin; j < end; ++j) {
          const int64_t x = step > 0 ? j : width - 1 - j;
          const int32_t id = ids.row(y)[x];
          float least = step > 0 ? kFar : d.row(y)[x];
          const auto look = [&](int64_t row, int64_t column, float length) {
            if (column < 0 || column >= width) return;
            least = std::min(least, ids.row(row)[column] == id ? d.row(row)[column] + length : 1.0f);
          };
          look(y, x - step, 1);
          if (has_before) look(before, x - 1, kDiagonal), look(before, x, 1), look(before, x + 1, kDiagonal);
          d.row(y)[x] = least;
        }
      }
    }
  };
  pass(0, 1);
  pass(height - 1, -1);
  return distances;
}

// The place of each id that is the farthest from other ids and from the edge of the photo.
struct Centre {
  int64_t y = 0, x = 0;
  float distance = 0;
};

std::vector<Centre> Centres(View<const int32_t> ids, View<const float> distances, int64_t count) {
  const int64_t height = ids.dim(0), width = ids.dim(1);
  std::vector<Centre> centres(static_cast<size_t>(count));
  for (int64_t y = 0; y < height; ++y) {
    const auto vertical = static_cast<float>(std::min(y, height - 1 - y) + 1);
    image::ForEachRun(width, [&](int64_t begin, int64_t end) {
      for (int64_t x = begin; x < end; ++x) {
        Centre& centre = centres[static_cast<size_t>(ids.row(y)[x])];
        const float distance =
            std::min({distances.row(y)[x], vertical, static_cast<float>(std::min(x, width - 1 - x) + 1)});
        if (distance > centre.distance) centre = {y, x, distance};
      }
    });
  }
  return centres;
}

void FillSegments(View<const int32_t> ids, View<const float> distances, double line,
                  std::span<const Colour* const> colour_of, Image* picture) {
  const int64_t width = ids.dim(1);
  ParallelFor(ids.dim(0), 16, [&](int64_t begin, int64_t end) {
    for (int64_t y = begin; y < end; ++y) {
      image::ForEachRun(width, [&](int64_t from, int64_t to) {
        Spend(kStepsOfMixing * (to - from));
        for (int64_t x = from; x < to; ++x) {
          const Colour* const colour = colour_of[static_cast<size_t>(ids.row(y)[x])];
          if (colour == nullptr) continue;
          const bool outline = static_cast<double>(distances.row(y)[x]) <= line;
          Mix(picture->pixels.view().at(y, x), *colour, outline ? kOutlineOpacity : kFillOpacity);
        }
      });
    }
  });
}

bool Overlap(const Rect& a, const Rect& b) {
  return a.left < Right(b) && b.left < Right(a) && a.top < Bottom(b) && b.top < Bottom(a);
}

// Puts the plate around the widest place of the segment or, if it would hide a small one, above or below it; where it
// hides no other plate. Returns false if there is no such place.
bool PlacePlate(const Segment& segment, const Centre& centre, const Image& photo, std::span<const Rect> placed,
                Rect* plate) {
  constexpr double kRoom = 2.5;  // of a segment across, in heights of the plate
  const double height = plate->height, middle = static_cast<double>(centre.y) + 0.5 - height / 2;
  const double above = static_cast<double>(segment.box.top) - height - 1;
  const double below = static_cast<double>(segment.box.bottom) + 1;
  plate->left = std::round(std::clamp(static_cast<double>(centre.x) + 0.5 - plate->width / 2, 0.0,
                                      static_cast<double>(photo.width()) - plate->width));
  std::vector<double> tops = {middle, middle - 1.1 * height, middle + 1.1 * height, middle - 2.2 * height,
                              middle + 2.2 * height};
  if (2 * static_cast<double>(centre.distance) < kRoom * height) {
    tops = {above, below, above - 1.1 * height, below + 1.1 * height, middle};
  }
  for (const double top : tops) {
    plate->top = std::round(std::clamp(top, 0.0, static_cast<double>(photo.height()) - height));
    if (std::ranges::none_of(placed, [&](const Rect& other) { return Overlap(*plate, other); })) return true;
  }
  return false;
}

void DrawLabels(const Image& photo, const Segmentation& segmentation, std::span<const SegmentLabel> labels,
                std::span<const Centre> centres, std::span<const Colour> colours, const PlateSizes& sizes,
                Image* picture) {
  if (sizes.Height() > static_cast<double>(photo.height())) return;
  std::vector<size_t> order(labels.size());  // the greatest first
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return segmentation.segments[i].area; });
  if (order.size() > kMaxSegmentLabels) order.resize(kMaxSegmentLabels);
  std::vector<Rect> placed;
  for (const size_t i : order) {
    const Segment& segment = segmentation.segments[i];
    const std::string text = FitLabel(labels[i].name, labels[i].score, sizes, photo.width());
    Rect plate = {.height = sizes.Height(), .width = sizes.Width(text)};
    // A label may be larger than its object, but not hide what is around it.
    constexpr double kLeastShare = 0.1;
    const Centre& centre = centres[static_cast<size_t>(segment.id)];
    if (text.empty() || static_cast<double>(segment.area) < kLeastShare * plate.height * plate.width ||
        centre.distance == 0 || !PlacePlate(segment, centre, photo, placed, &plate)) {
      continue;
    }
    placed.push_back(plate);
    DrawPlate(*picture, text, plate, sizes, colours[i]);
  }
}

}  // namespace

double SegmentationDrawingBytes(const Image& photo) {
  // Three bytes a pixel for the picture, four for the distances.
  return 7 * static_cast<double>(photo.height()) * static_cast<double>(photo.width());
}

Image DrawSegmentation(const Image& photo, const Segmentation& segmentation, std::span<const SegmentLabel> labels) {
  const View<const int32_t> ids = segmentation.ids;
  Require(ids.shape() == Shape({photo.height(), photo.width()}) && labels.size() == segmentation.segments.size(),
          "draw segments: a map {} and {} labels for {} segments of {} x {} pixels", ids.shape(), labels.size(),
          segmentation.segments.size(), photo.width(), photo.height());
  RequireMemory(SegmentationDrawingBytes(photo), "draw segments: a photo and its distances");
  Image picture = image::ToChannels(photo, 3);
  const PlateSizes sizes(photo);
  const std::vector<Colour> colours = Colours(segmentation.segments);
  int64_t greatest = 0;
  image::ForEachRun(ids.size(), [&](int64_t begin, int64_t end) {
    for (const int32_t id :
         segmentation.ids.span().subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin))) {
      Require(id >= 0, "draw segments: id {}, expected 0 or more", id);
      greatest = std::max<int64_t>(greatest, id);
    }
  });
  std::vector<const Colour*> colour_of(static_cast<size_t>(greatest) + 1);
  for (size_t i = 0; i < colours.size(); ++i) {
    const int64_t id = segmentation.segments[i].id;
    if (id <= greatest) colour_of[static_cast<size_t>(id)] = &colours[i];
  }
  const Tensor<float> distances = DistancesToOthers(ids);
  FillSegments(ids, distances, sizes.line / 2, colour_of, &picture);
  std::vector<Centre> centres = Centres(ids, distances, greatest + 1);
  for (const Segment& segment : segmentation.segments) {  // instances that others cover entirely have none
    centres.resize(std::max(centres.size(), static_cast<size_t>(segment.id) + 1));
  }
  DrawLabels(photo, segmentation, labels, centres, colours, sizes, &picture);
  return picture;
}

}  // namespace qkv::app
