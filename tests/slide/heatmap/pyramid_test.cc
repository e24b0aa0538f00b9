// Deep Zoom pyramids: pixels of each level, a run that was stopped, damaged parts, other slides.
#include "qkv/slide/heatmap/pyramid.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "qkv/core/file.h"
#include "qkv/core/work.h"
#include "tests/slide/heatmap/made_slide.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace qkv::slide {
namespace {

namespace fs = std::filesystem;

image::Image Picture(const fs::path& folder, int level, int64_t column, int64_t row) {
  return image::DecodeFile(folder / "slide_files" / std::to_string(level) /
                           (std::to_string(column) + "_" + std::to_string(row) + ".webp"));
}

int64_t Pictures(const fs::path& folder) {
  int64_t pictures = 0;
  for (const auto& each : fs::recursive_directory_iterator(folder / "slide_files")) pictures += each.is_regular_file();
  return pictures;
}

// The mean difference of a picture's pixels from the slide at the pixels' centres.
double Difference(const MadeSlide& slide, const image::Image& picture, int64_t column, int64_t row, int64_t scale) {
  double sum = 0;
  for (int64_t y = 0; y < picture.height(); ++y) {
    for (int64_t x = 0; x < picture.width(); ++x) {
      uint8_t expected[3];
      const int64_t px = (column * kPyramidTile + x) * scale + scale / 2,
                    py = (row * kPyramidTile + y) * scale + scale / 2;
      slide.Pixel(px, py, expected);
      for (int c = 0; c < 3; ++c)
        sum += std::abs(expected[c] - picture.pixels.data()[3 * (y * picture.width() + x) + c]);
    }
  }
  return sum / static_cast<double>(picture.pixels.size());
}

TEST(Pyramid, IsPlannedByTheScale) {
  const auto downsample = [](int64_t side, double mpp, double finest) {
    return PlanPyramid(MadeSlide(side, side / 2, {1}, mpp).facts(), {.finest_mpp = finest}).downsample;
  };
  EXPECT_EQ(downsample(100'000, 0.25, 1), 4);
  EXPECT_EQ(downsample(100'000, 0.2528, 1), 4);
  EXPECT_EQ(downsample(100'000, 0.499, 1), 2);
  EXPECT_EQ(downsample(100'000, 0.25, 0.25), 1);
  EXPECT_EQ(downsample(100'000, 0.25, 0.01), 1);
  EXPECT_EQ(downsample(100'000, 0, 1), 8);
  EXPECT_EQ(downsample(16'384, 0, 1), 1);
  EXPECT_EQ(downsample(1000, 1e-9, 1), 4);  // one picture at least
  const Pyramid plan = PlanPyramid(MadeSlide(100'000, 60'000, {1}, 0.25).facts(), {});
  EXPECT_EQ(plan.width, 25'000);
  EXPECT_EQ(plan.height, 15'000);
  EXPECT_EQ(plan.finest, 15);
  EXPECT_EQ(plan.Columns(15), 98);
  EXPECT_EQ(plan.Rows(15), 59);
  EXPECT_EQ(plan.Columns(0), 1);
  EXPECT_EQ(PlanPyramid(MadeSlide(1, 1, {1}, 0).facts(), {}).Pictures(), 1);
}

class Pyramids : public testing::TestWithParam<std::vector<int64_t>> {};

TEST_P(Pyramids, ShowTheSlideAtEachLevel) {
  const MadeSlide slide(5001, 3003, GetParam(), 0.5);
  const TemporaryFolder folder;
  int64_t expected = 0, done = 0;
  const Pyramid pyramid = WritePyramid(slide, folder.path(),
                                       {.finest_mpp = 1,
                                        .begin = [&](int64_t pictures) { expected = pictures; },
                                        .advance = [&](int64_t pictures) { done += pictures; }});
  EXPECT_EQ(pyramid.width, 2501);
  EXPECT_EQ(pyramid.height, 1502);
  EXPECT_EQ(pyramid.finest, 12);
  EXPECT_EQ(expected, pyramid.Pictures());
  EXPECT_EQ(done, expected);
  EXPECT_EQ(Pictures(folder.path()), expected);
  for (const int level : {12, 11, 10, 9, 8}) {
    for (int64_t row = 0; row < pyramid.Rows(level); row += 2) {
      const int64_t column = pyramid.Columns(level) / 2;
      const image::Image picture = Picture(folder.path(), level, column, row);
      EXPECT_LT(Difference(slide, picture, column, row, int64_t{2} << (12 - level)), 6) << level << ", row " << row;
    }
  }
  const image::Image corner = Picture(folder.path(), 12, 9, 5);
  EXPECT_EQ(corner.width(), 2501 - 9 * 256);
  EXPECT_EQ(corner.height(), 1502 - 5 * 256);
  EXPECT_EQ(Picture(folder.path(), 0, 0, 0).width(), 1);
  EXPECT_NE(ReadFile(folder / "slide.dzi").find("Width=\"2501\" Height=\"1502\""), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Levels, Pyramids,
                         testing::Values(std::vector<int64_t>{1}, std::vector<int64_t>{1, 2, 8},
                                         std::vector<int64_t>{1, 4, 16}));

TEST(Pyramid, GoesOnWhereItWasStopped) {
  const MadeSlide slide(6000, 5000, {1, 2}, 0.5);
  const TemporaryFolder folder, whole;
  WritePyramid(slide, whole.path(), {});
  int64_t done = 0;
  const PyramidOptions options{.advance = [&](int64_t pictures) { done += pictures; }};
  {
    const CancelScope scope([&] { return done > 0; }, CancelChecks::kInTasks);
    EXPECT_THROW(WritePyramid(slide, folder.path(), options), Cancelled);
  }
  const int64_t before = Pictures(folder.path());
  EXPECT_GT(before, 0);
  EXPECT_LT(before, Pictures(whole.path()));
  slide.read = 0;
  WritePyramid(slide, folder.path(), {});
  EXPECT_LT(slide.read, 3000 * 2500);
  for (const auto& each : fs::recursive_directory_iterator(whole.path())) {
    if (!each.is_regular_file()) continue;
    EXPECT_EQ(ReadFile(each.path()), ReadFile(folder.path() / fs::relative(each.path(), whole.path()))) << each.path();
  }
  slide.read = 0;
  WritePyramid(slide, folder.path(), {});
  EXPECT_EQ(slide.read, 0);
}

TEST(Pyramid, ShowsDamagedPartsGreyAndNamesThem) {
  MadeSlide slide(3000, 2500, {1}, 1);
  slide.damaged_x = 2000, slide.damaged_y = 1200, slide.damaged_side = 30;
  const TemporaryFolder folder;
  const Pyramid pyramid = WritePyramid(slide, folder.path(), {});
  ASSERT_EQ(pyramid.damaged.size(), 1U);
  EXPECT_EQ(pyramid.damaged[0].x, 7 * 256);
  EXPECT_EQ(pyramid.damaged[0].y, 4 * 256);
  EXPECT_EQ(pyramid.damaged[0].width, 256);
  EXPECT_EQ(pyramid.damaged[0].why, "made: damaged");
  EXPECT_NEAR(*Picture(folder.path(), 12, 7, 4).pixels.data(), 160, 2);
  EXPECT_NE(std::abs(*Picture(folder.path(), 12, 8, 4).pixels.data() - 160), 0);
  // The next run knows of it too.
  EXPECT_EQ(WritePyramid(slide, folder.path(), {}).damaged.size(), 1U);
}

TEST(Pyramid, RefusesTheFolderOfAnotherSlide) {
  const MadeSlide slide(600, 500, {1}, 1);
  const TemporaryFolder folder;
  WritePyramid(slide, folder.path(), {.source = "a"});
  const std::string message = ErrorMessage([&] { WritePyramid(slide, folder.path(), {.source = "b"}); });
  EXPECT_NE(message.find("has pictures of another slide"), std::string::npos) << message;
  WriteFile(folder / "slide.json", "{");
  EXPECT_NE(ErrorMessage([&] { WritePyramid(slide, folder.path(), {.source = "a"}); }), "");
}

TEST(Pyramid, ReadsRegionsReduced) {
  const MadeSlide slide(40'000, 30'000, {1}, 0.25);
  image::Image pixels;
  ReadReduced(slide, {.x = 10'000, .y = 9000, .width = 9600, .height = 9600}, 96, 96, pixels);
  ASSERT_EQ(pixels.width(), 96);
  ASSERT_EQ(pixels.height(), 96);
  uint8_t expected[3];
  for (const int64_t at : {0, 40, 95}) {
    slide.Pixel(10'000 + at * 100 + 50, 9000 + at * 100 + 50, expected);
    EXPECT_NEAR(pixels.pixels.data()[3 * (at * 96 + at)], expected[0], 10);
  }
}

}  // namespace
}  // namespace qkv::slide
