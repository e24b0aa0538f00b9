#include "qkv/app/attention/overlay.h"

#include <algorithm>

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

}  // namespace qkv::app
