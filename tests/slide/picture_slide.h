// A slide in memory: a picture, and its reductions by boxes.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "qkv/image/resize.h"
#include "qkv/slide/read/slide.h"

namespace qkv::slide {

class PictureSlide : public Slide {
 public:
  /// Levels of 1 / downsamples of the picture's size.
  explicit PictureSlide(const image::Image& picture, const std::vector<int64_t>& downsamples = {1}) {
    facts_.format = "picture", facts_.reader = "test";
    for (const int64_t downsample : downsamples) {
      const int64_t width = picture.width() / downsample, height = picture.height() / downsample;
      facts_.levels.push_back({width, height, static_cast<double>(downsample)});
      levels_.push_back(image::Resize(picture, height, width, image::Filter::kBox));
    }
  }

  SlideFacts& facts() { return facts_; }
  using Slide::facts;

  void Read(int level, const Region& region, image::Image& pixels) const override {
    const image::Image& from = levels_.at(static_cast<size_t>(level));
    pixels.pixels = Tensor<uint8_t>({region.height, region.width, 3});
    std::fill_n(pixels.pixels.data(), pixels.pixels.size(), uint8_t{255});
    const int64_t left = std::max<int64_t>(0, region.x), right = std::min(from.width(), region.x + region.width);
    for (int64_t y = std::max<int64_t>(0, region.y); y < std::min(from.height(), region.y + region.height); ++y) {
      if (left >= right) break;
      std::memcpy(pixels.pixels.data() + 3 * ((y - region.y) * region.width + left - region.x),
                  from.pixels.data() + 3 * (y * from.width() + left), static_cast<size_t>(3 * (right - left)));
    }
  }

  image::Image ReadAssociated(const std::string& name) const override { Fail("picture: no picture {}", name); }

 private:
  std::vector<image::Image> levels_;
};

}  // namespace qkv::slide
