#include "qkv/app/attention/overlay.h"

#include <algorithm>
#include <cmath>

#include "qkv/image/resize.h"

namespace qkv::app {

Backdrop FitBackdrop(const image::Image& photo, const image::Rect& where, int64_t side) {
  const int64_t height = photo.height(), width = photo.width(), longer = std::max(height, width);
  Backdrop backdrop;
  backdrop.photo = image::Resize(image::ToChannels(photo, 3), std::max<int64_t>(1, height * side / longer),
                                 std::max<int64_t>(1, width * side / longer), image::Filter::kBicubic);
  const double down = static_cast<double>(backdrop.photo.height()) / static_cast<double>(height);
  const double across = static_cast<double>(backdrop.photo.width()) / static_cast<double>(width);
  backdrop.where = {where.top * down, where.left * across, where.height * down, where.width * across};
  return backdrop;
}

image::Image Overlay(const Backdrop& backdrop, View<const float> map, image::HeatStyle style) {
  const auto [least, greatest] = std::minmax_element(map.data(), map.data() + map.size());
  style.low = *least, style.high = *greatest;
  return image::OverlayHeat(backdrop.photo, map, backdrop.where, style);
}

void FramePatch(image::Image& picture, const image::Rect& where, int64_t rows, int64_t columns, int64_t patch) {
  const double height = where.height / static_cast<double>(rows), width = where.width / static_cast<double>(columns);
  const double y = where.top + static_cast<double>(patch / columns) * height;
  const double x = where.left + static_cast<double>(patch % columns) * width;
  const int64_t top = std::llround(y), left = std::llround(x);
  const int64_t bottom = std::llround(y + height), right = std::llround(x + width);
  const int64_t line = std::max<int64_t>(1, std::max(picture.height(), picture.width()) / 256);
  const auto frame = [&](int64_t out, const image::Colour& colour) {
    const int64_t t = top - out, l = left - out, h = bottom - top + 2 * out, w = right - left + 2 * out;
    image::Fill(picture, t, l, line, w, colour);
    image::Fill(picture, t + h - line, l, line, w, colour);
    image::Fill(picture, t, l, h, line, colour);
    image::Fill(picture, t, l + w - line, h, line, colour);
  };
  frame(line, {0, 0, 0});
  frame(0, {255, 255, 255});
}

}  // namespace qkv::app
