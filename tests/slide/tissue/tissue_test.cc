#include "qkv/slide/tissue/tissue.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/slide/picture_slide.h"
#include "tests/slide/tissue/support.h"
#include "tests/support/errors.h"

namespace qkv::slide {
namespace {

using Shade = std::array<int, 3>;
constexpr Shade kGlass{243, 242, 244}, kPaleEosin{238, 218, 226}, kEosin{220, 150, 185}, kHaematoxylin{120, 85, 150};
constexpr Shade kCounterstain{214, 219, 232}, kDab{150, 105, 75}, kBlack{0, 0, 0}, kGreenInk{30, 140, 60};

// A picture of glass with noise, on which shapes are drawn.
class Canvas {
 public:
  Canvas(int64_t width, int64_t height, const Shade& ground = kGlass) : picture_{Tensor<uint8_t>({height, width, 3})} {
    Draw(0, 0, width, height, ground, [](double, double) { return true; });
  }

  void Rectangle(int64_t left, int64_t top, int64_t width, int64_t height, const Shade& shade) {
    Draw(left, top, width, height, shade, [](double, double) { return true; });
  }
  void Disc(double x, double y, double radius, const Shade& shade) {
    const auto r = static_cast<int64_t>(radius);
    Draw(static_cast<int64_t>(x) - r, static_cast<int64_t>(y) - r, 2 * r, 2 * r, shade,
         [&](double u, double v) { return std::hypot(u - x, v - y) < radius; });
  }
  /// At `mpp` microns a pixel.
  PictureSlide Slide(std::optional<double> mpp = 4.0) {
    PictureSlide slide(picture_, picture_.width() > 100 ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{1});
    slide.facts().mpp_x = slide.facts().mpp_y = mpp;
    return slide;
  }

 private:
  template <typename F>
  void Draw(int64_t left, int64_t top, int64_t width, int64_t height, const Shade& shade, F&& inside) {
    for (int64_t y = std::max<int64_t>(0, top); y < std::min(picture_.height(), top + height); ++y) {
      for (int64_t x = std::max<int64_t>(0, left); x < std::min(picture_.width(), left + width); ++x) {
        if (!inside(static_cast<double>(x), static_cast<double>(y))) continue;
        for (int c = 0; c < 3; ++c) {
          random_ = random_ * 6364136223846793005u + 1;
          const int value = shade == kBlack ? 0 : shade[c] + static_cast<int>(random_ >> 60) - 8;
          picture_.pixels.data()[3 * (y * picture_.width() + x) + c] = static_cast<uint8_t>(std::clamp(value, 0, 255));
        }
      }
    }
  }

  image::Image picture_;
  uint64_t random_ = 5;
};

bool InTissue(const Tissue& tissue, double x, double y) {
  return std::any_of(tissue.polygons.begin(), tissue.polygons.end(),
                     [&](const Polygon& polygon) { return InPolygon(polygon, x, y); });
}

constexpr double kDiscArea = M_PI * 200 * 200;  // 2 mm² at 4 µm

TEST(FindTissue, FindsStainsOfAnyStrength) {
  for (const Shade& shade : {kEosin, kHaematoxylin, kPaleEosin, kCounterstain, kDab}) {
    Canvas canvas(1000, 750);
    canvas.Disc(450, 350, 200, shade);
    const Tissue tissue = FindTissue(canvas.Slide());
    ASSERT_EQ(tissue.polygons.size(), 1u) << shade[0];
    EXPECT_NEAR(AreaOfTissue(tissue) / kDiscArea, 1, 0.03) << shade[0];
    EXPECT_TRUE(tissue.polygons[0].holes.empty());
    EXPECT_LT(tissue.polygons[0].outer.size(), 80u);
  }
}

TEST(FindTissue, FindsPaleTissueBesideStrong) {
  Canvas canvas(1000, 750);
  canvas.Disc(250, 350, 200, kHaematoxylin);
  canvas.Disc(750, 350, 200, kPaleEosin);
  const Tissue tissue = FindTissue(canvas.Slide());
  EXPECT_EQ(tissue.polygons.size(), 2u);
  EXPECT_NEAR(AreaOfTissue(tissue) / kDiscArea, 2, 0.06);
}

TEST(FindTissue, FindsNoneOnGlass) {
  EXPECT_TRUE(FindTissue(Canvas(1000, 750).Slide()).polygons.empty());
  EXPECT_TRUE(FindTissue(Canvas(450, 450, {255, 255, 255}).Slide()).polygons.empty());
  EXPECT_TRUE(FindTissue(Canvas(450, 450, {240, 236, 228}).Slide()).polygons.empty());  // yellowish glass
  EXPECT_TRUE(FindTissue(Canvas(450, 450, kBlack).Slide()).polygons.empty());
}

TEST(FindTissue, TakesASlideOfTissueAloneWhole) {
  for (const Shade& shade : {kEosin, kHaematoxylin}) {
    Canvas canvas(750, 500, shade);
    canvas.Disc(350, 250, 150, kPaleEosin);  // which Otsu's threshold alone would leave out
    const Tissue tissue = FindTissue(canvas.Slide());
    ASSERT_EQ(tissue.polygons.size(), 1u);
    EXPECT_EQ(AreaOfTissue(tissue), 750.0 * 500);
  }
}

TEST(FindTissue, LeavesOutBordersDustAndGreenInk) {
  Canvas canvas(1000, 750);
  canvas.Disc(450, 350, 200, kEosin);
  canvas.Rectangle(0, 0, 1000, 30, kBlack);
  canvas.Rectangle(950, 0, 50, 750, kBlack);
  canvas.Disc(100, 650, 60, {120, 122, 121});
  canvas.Rectangle(700, 100, 30, 600, kGreenInk);
  const Tissue tissue = FindTissue(canvas.Slide());
  ASSERT_EQ(tissue.polygons.size(), 1u);
  EXPECT_NEAR(AreaOfTissue(tissue) / kDiscArea, 1, 0.03);
}

TEST(FindTissue, TakesInkOfBluePensForTissue) {
  Canvas canvas(1000, 750);
  canvas.Rectangle(700, 100, 60, 600, {40, 60, 170});
  EXPECT_EQ(FindTissue(canvas.Slide()).polygons.size(), 1u);
}

TEST(FindTissue, RemovesSpecksAndSmallHolesByTheirArea) {
  Canvas canvas(1000, 750);
  canvas.Disc(450, 350, 200, kEosin);
  canvas.Disc(350, 350, 18, kGlass);  // 0.016 mm²
  canvas.Disc(500, 350, 40, kGlass);  // 0.08 mm²
  canvas.Disc(850, 150, 25, kEosin);  // 0.03 mm²
  canvas.Disc(850, 600, 45, kEosin);  // 0.1 mm²
  const PictureSlide slide = canvas.Slide();
  const Tissue tissue = FindTissue(slide);
  ASSERT_EQ(tissue.polygons.size(), 2u);
  EXPECT_EQ(tissue.polygons[0].holes.size(), 1u);
  EXPECT_TRUE(InTissue(tissue, 350, 350));
  EXPECT_FALSE(InTissue(tissue, 500, 350));
  EXPECT_FALSE(InTissue(tissue, 850, 150));
  EXPECT_TRUE(InTissue(tissue, 850, 600));
  EXPECT_TRUE(InTissue(FindTissue(slide, {.keep_holes = false}), 500, 350));
  EXPECT_TRUE(InTissue(FindTissue(slide, {.min_area = 0.01}), 850, 150));
  EXPECT_FALSE(InTissue(FindTissue(slide, {.min_hole = 0.001}), 350, 350));
}

TEST(FindTissue, TakesSlidesWithoutAScale) {
  Canvas canvas(1000, 750);
  canvas.Disc(450, 350, 200, kEosin);
  const Tissue tissue = FindTissue(canvas.Slide(std::nullopt));
  ASSERT_EQ(tissue.polygons.size(), 1u);
  EXPECT_NEAR(AreaOfTissue(tissue) / kDiscArea, 1, 0.03);
  EXPECT_NO_THROW(FindTissue(Canvas(1, 1).Slide(std::nullopt)));
  EXPECT_NO_THROW(FindTissue(Canvas(3, 2, kEosin).Slide(100)));
}

TEST(FindTissue, SaysWhatOptionsItExpects) {
  const PictureSlide slide = Canvas(10, 10).Slide();
  EXPECT_NE(ErrorMessage([&] { FindTissue(slide, {.mpp = 0}); }).find("microns a pixel above 0"), std::string::npos);
  EXPECT_NE(ErrorMessage([&] { FindTissue(slide, {.min_area = -1}); }).find("areas of 0 or more"), std::string::npos);
  const PictureSlide broken = Canvas(10, 10).Slide(0);
  EXPECT_NE(ErrorMessage([&] { FindTissue(broken); }).find("the slide says 0 and 0"), std::string::npos);
}

}  // namespace
}  // namespace qkv::slide
