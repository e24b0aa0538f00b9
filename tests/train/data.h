// Small data sets, written to a folder or made in memory.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "qkv/core/file.h"
#include "qkv/image/encode.h"
#include "qkv/train/data/dataset.h"
#include "tests/support/files.h"
#include "tests/support/sampler.h"

namespace qkv::train {

/// Noise from a seed.
inline image::Image NoiseImage(int64_t height, int64_t width, int64_t channels, uint64_t seed) {
  Rng rng(seed);
  image::Image image{Tensor<uint8_t>({height, width, channels})};
  for (uint8_t& level : image.pixels.span()) level = static_cast<uint8_t>(rng.Next());
  return image;
}

/// FOLDER/NAME.png for each image, of a seed of its own.
inline void WriteImages(const std::filesystem::path& folder, int count, uint64_t seed, int64_t height = 6,
                        int64_t width = 8) {
  std::filesystem::create_directories(folder);
  for (int i = 0; i < count; ++i) {
    image::WritePng(folder / fmt::format("{:03}.png", i),
                    NoiseImage(height, width, 3, seed + static_cast<uint64_t>(i)));
  }
}

/// n images of noise with labels 0 … classes − 1 in turn, in memory.
inline Split NoiseSplit(int64_t n, int64_t classes, int64_t height = 8, int64_t width = 8, int64_t channels = 3) {
  Split split{.name = "train"};
  const image::Image all = NoiseImage(n * height, width, channels, 5);
  split.pixels = Tensor<uint8_t>({n, height, width, channels});
  std::copy_n(all.pixels.data(), all.pixels.size(), split.pixels.data());
  for (int64_t i = 0; i < n; ++i) split.labels.push_back(i % classes);
  return split;
}

}  // namespace qkv::train
