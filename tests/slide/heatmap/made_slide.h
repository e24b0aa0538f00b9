// A slide that is computed, for tests: large ones need no memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "qkv/slide/read/slide.h"

namespace qkv::slide {

/// Purple ellipses on white, each pixel by its place at level 0.
class MadeSlide final : public Slide {
 public:
  MadeSlide(int64_t width, int64_t height, std::vector<int64_t> downsamples, double mpp) {
    facts_.format = "made";
    for (const int64_t each : downsamples) {
      facts_.levels.push_back({(width + each - 1) / each, (height + each - 1) / each, static_cast<double>(each)});
    }
    if (mpp > 0) facts_.mpp_x = facts_.mpp_y = mpp;
  }

  void Read(int level, const Region& region, image::Image& pixels) const override {
    const Level& of = facts_.levels.at(static_cast<size_t>(level));
    read += region.width * region.height;
    pixels.pixels = Tensor<uint8_t>::Uninitialised({region.height, region.width, 3});
    const auto scale = static_cast<int64_t>(of.downsample);
    for (int64_t y = 0; y < region.height; ++y) {
      for (int64_t x = 0; x < region.width; ++x) {
        Pixel((region.x + x) * scale, (region.y + y) * scale, pixels.pixels.data() + 3 * (y * region.width + x));
      }
    }
    const int64_t left = region.x * scale, top = region.y * scale;
    const bool hit = damaged_side > 0 && left < damaged_x + damaged_side && damaged_x < left + region.width * scale &&
                     top < damaged_y + damaged_side && damaged_y < top + region.height * scale;
    if (hit) throw DamagedRegion("made: damaged");
  }

  image::Image ReadAssociated(const std::string& name) const override { Fail("made: no {}", name); }

  /// Level 0: white outside.
  void Pixel(int64_t x, int64_t y, uint8_t* rgb) const {
    rgb[0] = rgb[1] = rgb[2] = 255;
    if (x < 0 || y < 0 || x >= facts_.levels[0].width || y >= facts_.levels[0].height) return;
    const double u = static_cast<double>(x) / static_cast<double>(facts_.levels[0].width) - 0.5;
    const double v = static_cast<double>(y) / static_cast<double>(facts_.levels[0].height) - 0.5;
    if (u * u / 0.16 + v * v / 0.09 > 1) return;
    const auto shade = static_cast<uint8_t>((x / 64 + y / 64) % 32);
    rgb[0] = static_cast<uint8_t>(190 + shade);
    rgb[1] = static_cast<uint8_t>(120 + 2 * shade);
    rgb[2] = 200;
  }

  int64_t damaged_x = 0, damaged_y = 0, damaged_side = 0;  // at level 0
  mutable std::atomic<int64_t> read = 0;                   // pixels
};

}  // namespace qkv::slide
