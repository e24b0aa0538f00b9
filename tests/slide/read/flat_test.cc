// Flat pictures in TIFF: the levels that are computed of them.
#include <tiffio.h>

#include <cmath>

#include "tests/slide/read/tiff_files.h"
#include "tests/support/errors.h"

namespace qkv::slide {
namespace {

constexpr int64_t kFlatWidth = 17000, kFlatHeight = 70;

uint8_t FlatValue(int64_t x, int64_t y, int64_t c) { return static_cast<uint8_t>(x / 3 * 5 + y * 11 + c * 60); }

/// tile: 0 for strips of 9 rows.
void WriteFlat(const std::filesystem::path& path, uint32_t tile) {
  TIFF* const tiff = TIFFOpen(path.c_str(), "w");
  ASSERT_NE(tiff, nullptr);
  TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, static_cast<uint32_t>(kFlatWidth));
  TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, static_cast<uint32_t>(kFlatHeight));
  TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, 3);
  TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 8);
  TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_RGB);
  TIFFSetField(tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
  TIFFSetField(tiff, TIFFTAG_COMPRESSION, COMPRESSION_LZW);
  if (tile > 0) {
    TIFFSetField(tiff, TIFFTAG_TILEWIDTH, tile);
    TIFFSetField(tiff, TIFFTAG_TILELENGTH, tile);
  } else {
    TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, 9);
  }
  const int64_t width = tile > 0 ? tile : kFlatWidth, height = tile > 0 ? tile : 9;
  std::vector<uint8_t> piece(static_cast<size_t>(3 * width * height));
  uint32_t index = 0;
  for (int64_t top = 0; top < kFlatHeight; top += height) {
    for (int64_t left = 0; left < kFlatWidth; left += width, ++index) {
      for (int64_t i = 0; i < std::ssize(piece); ++i)
        piece[static_cast<size_t>(i)] = FlatValue(left + i / 3 % width, top + i / 3 / width, i % 3);
      const int64_t rows = tile > 0 ? height : std::min(height, kFlatHeight - top);
      if (tile > 0) {
        TIFFWriteEncodedTile(tiff, index, piece.data(), 3 * width * rows);
      } else {
        TIFFWriteEncodedStrip(tiff, index, piece.data(), 3 * width * rows);
      }
    }
  }
  TIFFClose(tiff);
}

uint8_t BoxOf(int64_t factor, int64_t x, int64_t y, int64_t c) {
  int64_t sum = 0, count = 0;
  for (int64_t v = y * factor; v < std::min(kFlatHeight, (y + 1) * factor); ++v)
    for (int64_t u = x * factor; u < std::min(kFlatWidth, (x + 1) * factor); ++u, ++count) sum += FlatValue(u, v, c);
  return static_cast<uint8_t>((sum + count / 2) / count);
}

TEST(FlatTiffs, HaveComputedLevels) {
  const TemporaryFolder folder;
  for (const uint32_t tile : {0u, 48u}) {
    const std::filesystem::path path = folder / "flat.tiff";
    WriteFlat(path, tile);
    const auto slide = OpenTiffSlide(path);
    const std::vector<Level>& levels = slide->facts().levels;
    ASSERT_EQ(levels.size(), 3u);
    for (int level = 1; level < 3; ++level) {
      const int64_t factor = level == 1 ? 4 : 16;
      const Level& size = levels[static_cast<size_t>(level)];
      EXPECT_EQ(size.width, (kFlatWidth + factor - 1) / factor);
      EXPECT_EQ(size.height, (kFlatHeight + factor - 1) / factor);
      EXPECT_EQ(size.downsample, static_cast<double>(factor));
      const Region region{size.width - 300, -2, 310, size.height + 5};
      image::Image pixels;
      slide->Read(level, region, pixels);
      for (int64_t y = 0; y < region.height; ++y) {
        for (int64_t x = 0; x < region.width; ++x) {
          const int64_t at_x = region.x + x, at_y = region.y + y;
          const bool inside = at_x < size.width && at_y >= 0 && at_y < size.height;
          for (int64_t c = 0; c < 3; ++c)
            ASSERT_EQ(*pixels.pixels.view().at(y, x, c), inside ? BoxOf(factor, at_x, at_y, c) : 255)
                << level << ": " << at_x << ", " << at_y;
        }
      }
    }
    EXPECT_EQ(ReadOverview(*slide, 500).width(), 500);
  }
}

TEST(FlatTiffs, DamageIsNamedAtEveryLevel) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "flat.tiff";
  WriteFlat(path, 48);
  std::string bytes = ReadBytes(path);
  // The first tile's codes.
  bytes.replace(8, 40, std::string(40, '\xFF'));
  std::ofstream(path, std::ios::binary) << bytes;
  const auto slide = OpenTiffSlide(path);
  image::Image pixels;
  for (const int level : {0, 1, 2}) {
    const std::string error = ErrorMessage([&] { slide->Read(level, {0, 0, 2, 2}, pixels); });
    EXPECT_NE(error.find("level 0, tile 0 at (0, 0)"), std::string::npos) << level << ": " << error;
    slide->Read(level, {100, 0, 20, 4}, pixels);
  }
  int damaged = 0;
  const image::Image overview = ReadOverview(*slide, 1000, [&](const std::string&) { ++damaged; });
  EXPECT_EQ(damaged, 1);
  EXPECT_EQ(overview.width(), 1000);
}

}  // namespace
}  // namespace qkv::slide
