// Images that a model learns to tell apart in seconds.
#pragma once

#include <fmt/format.h>

#include <filesystem>

#include "qkv/core/file.h"
#include "qkv/core/rng.h"
#include "qkv/image/encode.h"

namespace qkv {

// Three classes that differ by where they are bright, in noise.
inline void DrawImages(const std::filesystem::path& folder, int per_class, uint64_t seed) {
  constexpr const char* kClasses[] = {"left", "middle", "right"};
  Rng rng(seed);
  for (int label = 0; label < 3; ++label) {
    std::filesystem::create_directories(folder / kClasses[label]);
    for (int i = 0; i < per_class; ++i) {
      image::Image image{Tensor<uint8_t>({8, 8, 1})};
      for (int64_t y = 0; y < 8; ++y) {
        for (int64_t x = 0; x < 8; ++x) {
          const bool bright = x / 3 == label;
          image.pixels[8 * y + x] = static_cast<uint8_t>((bright ? 150 : 50) + 100 * rng.Uniform());
        }
      }
      WriteFile(folder / kClasses[label] / fmt::format("{}.png", i), image::EncodePng(image));
    }
  }
}

}  // namespace qkv
