#include "qkv/app/slides/slide_pictures.h"

#include <algorithm>
#include <cmath>

#include "qkv/app/slides/slide_folder.h"
#include "qkv/core/file.h"
#include "qkv/image/draw.h"
#include "qkv/image/encode.h"

namespace qkv::app {
namespace {

constexpr image::Colour kOuter = {0, 160, 80}, kHole = {200, 30, 30};
constexpr int64_t kLineWidth = 2;

void DrawRing(image::Image& picture, const slide::Ring& ring, double scale, const image::Colour& colour) {
  for (size_t i = 0; i < ring.size(); ++i) {
    const slide::Point &a = ring[i], &b = ring[(i + 1) % ring.size()];
    const double length = scale * std::max(std::abs(b[0] - a[0]), std::abs(b[1] - a[1]));
    const auto steps = static_cast<int64_t>(std::ceil(std::min(length, 1e6))) + 1;
    for (int64_t step = 0; step <= steps; ++step) {
      const double part = static_cast<double>(step) / static_cast<double>(steps);
      const auto x = std::llround(scale * (a[0] + part * (b[0] - a[0])));
      const auto y = std::llround(scale * (a[1] + part * (b[1] - a[1])));
      image::Fill(picture, y - kLineWidth / 2, x - kLineWidth / 2, kLineWidth, kLineWidth, colour);
    }
  }
}

}  // namespace

void WritePicture(const std::filesystem::path& path, const image::Image& picture) {
  SlideFolder::Prepare(path);
  WriteFile(path, image::EncodeWebp(picture));
}

image::Image DrawTissue(image::Image overview, const slide::SlideFacts& slide, const slide::Tissue& tissue) {
  const double scale = static_cast<double>(overview.width()) / static_cast<double>(slide.levels[0].width);
  for (const slide::Polygon& polygon : tissue.polygons) {
    DrawRing(overview, polygon.outer, scale, kOuter);
    for (const slide::Ring& hole : polygon.holes) DrawRing(overview, hole, scale, kHole);
  }
  return overview;
}

}  // namespace qkv::app
