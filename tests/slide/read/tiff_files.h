// The small slides that golden/generate_tiff.py wrote.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "qkv/slide/read/readers.h"
#include "tests/support/files.h"

namespace qkv::slide {

inline std::filesystem::path TiffGoldens() { return SourceFolder() / "tests/slide/golden/tiff"; }

inline std::string ReadBytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Opens by libtiff alone. Fails the test if it does not.
inline std::unique_ptr<Slide> OpenTiffSlide(const std::filesystem::path& path) {
  std::string why;
  std::unique_ptr<Slide> slide = OpenTiff(path, {}, why);
  EXPECT_NE(slide, nullptr) << path << ": " << why;
  return slide;
}

/// A level as a whole.
inline image::Image ReadLevel(const Slide& slide, int level) {
  const Level size = slide.facts().levels.at(static_cast<size_t>(level));
  image::Image pixels;
  slide.Read(level, {0, 0, size.width, size.height}, pixels);
  return pixels;
}

}  // namespace qkv::slide
