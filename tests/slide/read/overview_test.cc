#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <set>

#include "qkv/core/memory.h"
#include "tests/slide/read/tiff_files.h"
#include "tests/support/errors.h"

namespace qkv::slide {
namespace {

/// A picture that counts what is read of it; some parts are damaged.
class FakeSlide : public Slide {
 public:
  FakeSlide(int64_t width, int64_t height, std::vector<Region> damaged = {}) : damaged_(std::move(damaged)) {
    facts_.levels = {{width, height, 1}};
  }

  static uint8_t Value(int64_t x, int64_t y, int64_t c) {
    return static_cast<uint8_t>((x * 7 + y * 13 + c * 50) % 200);
  }

  void Read(int, const Region& region, image::Image& pixels) const override {
    largest_ = std::max<int64_t>(largest_, region.width * region.height);
    for (const Region& d : damaged_) {
      if (region.x < d.x + d.width && d.x < region.x + region.width && region.y < d.y + d.height &&
          d.y < region.y + region.height)
        throw DamagedRegion("the tile at " + std::to_string(d.x));
    }
    pixels.pixels.Reuse({region.height, region.width, 3});
    for (int64_t y = 0; y < region.height; ++y)
      for (int64_t x = 0; x < region.width; ++x)
        for (int64_t c = 0; c < 3; ++c) *pixels.pixels.view().at(y, x, c) = Value(region.x + x, region.y + y, c);
  }

  image::Image ReadAssociated(const std::string&) const override { return {}; }

  int64_t largest() const { return largest_; }

 private:
  const std::vector<Region> damaged_;
  mutable std::atomic<int64_t> largest_ = 0;
};

/// The mean over the box of one output pixel, by parts of pixels.
double BoxMean(int64_t width, int64_t height, int64_t out_width, int64_t out_height, int64_t ox, int64_t oy,
               int64_t c) {
  const double sx = static_cast<double>(width) / static_cast<double>(out_width);
  const double sy = static_cast<double>(height) / static_cast<double>(out_height);
  double sum = 0, area = 0;
  for (auto y = static_cast<int64_t>(oy * sy);
       y < std::min<double>(static_cast<double>(height), std::ceil((oy + 1) * sy)); ++y) {
    for (auto x = static_cast<int64_t>(ox * sx);
         x < std::min<double>(static_cast<double>(width), std::ceil((ox + 1) * sx)); ++x) {
      const double w = (std::min<double>(x + 1, (ox + 1) * sx) - std::max<double>(x, ox * sx)) *
                       (std::min<double>(y + 1, (oy + 1) * sy) - std::max<double>(y, oy * sy));
      sum += w * FakeSlide::Value(x, y, c);
      area += w;
    }
  }
  return sum / area;
}

TEST(Overview, IsTheMeanOfBoxes) {
  for (const auto& [width, height, side] :
       {std::tuple(301, 200, 100), std::tuple(97, 413, 59), std::tuple(64, 64, 64), std::tuple(5, 3, 100)}) {
    const FakeSlide slide(width, height);
    const image::Image got = ReadOverview(slide, side);
    EXPECT_EQ(std::max(got.width(), got.height()), std::min(side, std::max(width, height)));
    for (int64_t y = 0; y < got.height(); ++y)
      for (int64_t x = 0; x < got.width(); ++x)
        for (int64_t c = 0; c < 3; ++c)
          ASSERT_NEAR(*got.pixels.view().at(y, x, c), BoxMean(width, height, got.width(), got.height(), x, y, c),
                      0.502);
  }
}

TEST(Overview, ReadsBlocksOfBoundedSize) {
  const FakeSlide slide(6000, 2200);
  const image::Image got = ReadOverview(slide, 600);
  EXPECT_EQ(got.pixels.shape(), Shape({220, 600, 3}));
  EXPECT_LE(slide.largest(), 2048 * 2048);
}

TEST(Overview, DamagedPartsAreWhiteAndReportedOnce) {
  const FakeSlide slide(2300, 2100, {{100, 200, 64, 64}, {2040, 100, 20, 20}});
  std::multiset<std::string> reported;
  const image::Image got = ReadOverview(slide, 2300, [&](const std::string& what) { reported.insert(what); });
  EXPECT_EQ(reported, (std::multiset<std::string>{"the tile at 100", "the tile at 2040"}));
  EXPECT_EQ(*got.pixels.view().at(230, 130, 0), 255);
  EXPECT_EQ(*got.pixels.view().at(110, 2050, 0), 255);
  // No more than the halves of blocks around them is lost.
  EXPECT_EQ(*got.pixels.view().at(330, 130, 0), FakeSlide::Value(130, 330, 0));
  EXPECT_EQ(*got.pixels.view().at(230, 240, 0), FakeSlide::Value(240, 230, 0));
  int64_t white = 0;
  for (const uint8_t sample : got.pixels.span()) white += sample == 255;
  EXPECT_LE(white, 3 * 6 * 64 * 64);
}

TEST(Overview, OfASlideInTiff) {
  const auto slide = OpenTiffSlide(TiffGoldens() / "damaged_lzw.tiff");
  std::vector<std::string> damaged;
  const image::Image all = ReadOverview(*slide, 53, [&](const std::string& what) { damaged.push_back(what); });
  ASSERT_EQ(damaged.size(), 1u);
  EXPECT_NE(damaged[0].find("level 0, tile 6"), std::string::npos) << damaged[0];
  EXPECT_EQ(all.pixels.shape(), Shape({42, 53, 3}));
  // At a side that a coarser level has, nothing is damaged.
  damaged.clear();
  const image::Image small = ReadOverview(*slide, 20, [&](const std::string& what) { damaged.push_back(what); });
  EXPECT_TRUE(damaged.empty());
  EXPECT_EQ(small.width(), 20);
}

}  // namespace
}  // namespace qkv::slide
