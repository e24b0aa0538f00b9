#include "qkv/app/detection/box_drawing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "qkv/app/detection/class_colours.h"
#include "qkv/image/draw.h"
#include "tests/support/errors.h"

namespace qkv::app {
namespace {

using image::Colour;
using image::Image;

Image Grey(int64_t height, int64_t width, int64_t channels = 3) {
  Image photo{Tensor<uint8_t>({height, width, channels})};
  std::ranges::fill(photo.pixels.span(), uint8_t{128});
  return photo;
}

Colour At(const Image& image, int64_t y, int64_t x) {
  const uint8_t* pixel = image.pixels.view().at(y, x);
  return {pixel[0], pixel[1], pixel[2]};
}

int64_t Count(const Image& image, const Colour& colour) {
  int64_t count = 0;
  for (int64_t y = 0; y < image.height(); ++y) {
    for (int64_t x = 0; x < image.width(); ++x) count += At(image, y, x) == colour;
  }
  return count;
}

// Pixels of letters: nothing else on a grey photo is black or white.
int64_t CountInk(const Image& image) { return Count(image, {0, 0, 0}) + Count(image, {255, 255, 255}); }

constexpr Colour kGrey = {128, 128, 128};

TEST(DrawBoxes, FramesAreOnTheBoxes) {
  const Image photo = Grey(400, 600);
  const DrawnBox box = {.box = {.top = 100, .left = 150, .height = 200, .width = 300}, .name = "cat", .score = 0.93};
  const Image picture = DrawBoxes(photo, {&box, 1});
  EXPECT_EQ(picture.height(), 400);
  EXPECT_EQ(picture.width(), 600);
  const Colour colour = ClassColour(0);
  EXPECT_EQ(At(picture, 250, 150), colour);
  EXPECT_EQ(At(picture, 250, 449), colour);
  EXPECT_EQ(At(picture, 100, 400), colour);
  EXPECT_EQ(At(picture, 299, 400), colour);
  EXPECT_EQ(At(picture, 200, 300), kGrey);
  EXPECT_EQ(At(picture, 200, 140), kGrey);
  EXPECT_EQ(At(picture, 320, 300), kGrey);
  // The label is above the box.
  EXPECT_EQ(At(picture, 93, 152), colour);
  EXPECT_GT(CountInk(picture), 0);
  EXPECT_EQ(At(picture, 60, 200), kGrey);
}

TEST(DrawBoxes, LinesAndLettersGrowWithThePhoto) {
  int64_t last_line = 0, last_ink = 0;
  for (const int64_t side : {200, 800, 1600}) {
    const double part = static_cast<double>(side) / 4;
    const DrawnBox box = {.box = {part, part, 2 * part, 2 * part}, .name = "cat", .score = 0.93};
    const Image picture = DrawBoxes(Grey(side, side), {&box, 1});
    int64_t line = 0;
    for (int64_t x = 0; x < side / 2; ++x) line += At(picture, side / 2, x) == ClassColour(0);
    EXPECT_GT(line, last_line);
    EXPECT_GT(CountInk(picture), last_ink);
    last_line = line;
    last_ink = CountInk(picture);
  }
}

TEST(DrawBoxes, LabelsAreWholeAtEveryEdge) {
  const Image photo = Grey(600, 600);
  const auto ink = [&](const image::Rect& rect) {
    const DrawnBox box = {.box = rect, .name = "giraffe", .score = 0.5};
    return CountInk(DrawBoxes(photo, {&box, 1}));
  };
  const int64_t whole = ink({100, 100, 100, 100});
  EXPECT_GT(whole, 20);
  for (const image::Rect& rect : std::vector<image::Rect>{{0, 0, 600, 600},
                                                          {-50, -50, 100, 100},
                                                          {550, 590, 100, 100},
                                                          {0, 595, 600, 20},
                                                          {595, 0, 10, 600},
                                                          {1, 1, 0, 0},
                                                          {599, 599, 1, 1},
                                                          {-1e9, -1e9, 1e10, 1e10}}) {
    EXPECT_EQ(ink(rect), whole) << rect.top << " " << rect.left;
  }
}

TEST(DrawBoxes, LabelsOfNestedBoxesAreAllReadable) {
  const Image photo = Grey(800, 800);
  std::vector<DrawnBox> boxes;
  int64_t whole = 0;
  for (int i = 0; i < 6; ++i) {
    boxes.push_back({.box = {200.0 + i, 200.0 + i, 300, 300}, .name = "cat", .score = 0.9 - 0.1 * i, .class_index = i});
    whole += CountInk(DrawBoxes(photo, {&boxes.back(), 1}));
  }
  EXPECT_EQ(CountInk(DrawBoxes(photo, boxes)), whole);
}

TEST(DrawBoxes, ABetterBoxIsOnTop) {
  const Image photo = Grey(400, 400);
  std::vector<DrawnBox> boxes = {
      {.box = {100, 100, 200, 200}, .name = "", .score = 0.9, .class_index = 1},
      {.box = {100, 100, 200, 200}, .name = "", .score = 0.2, .class_index = 2},
  };
  EXPECT_EQ(At(DrawBoxes(photo, boxes), 200, 100), ClassColour(1));
  std::ranges::reverse(boxes);
  EXPECT_EQ(At(DrawBoxes(photo, boxes), 200, 100), ClassColour(1));
}

TEST(DrawBoxes, PhotosOfEverySizeAndKind) {
  for (const int64_t channels : {1, 2, 3, 4}) {
    for (const int64_t height : {1, 2, 9, 40}) {
      for (const int64_t width : {1, 7, 30, 61}) {
        std::vector<DrawnBox> boxes = {{.box = {0, 0, 5, 5}, .name = "größe\n", .score = 1},
                                       {.box = {-3, 1, 50, 9}, .name = std::string(5000, 'x'), .score = 0.3}};
        const Image picture = DrawBoxes(Grey(height, width, channels), boxes);
        EXPECT_EQ(picture.channels(), 3);
        EXPECT_EQ(picture.height(), height);
        EXPECT_EQ(picture.width(), width);
      }
    }
  }
}

TEST(DrawBoxes, WhatIsOutsideIsLeftOut) {
  const Image photo = Grey(50, 60);
  const std::vector<DrawnBox> boxes = {{.box = {50, 0, 5, 5}, .name = "a", .score = 1},
                                       {.box = {0, 60, 5, 5}, .name = "b", .score = 1},
                                       {.box = {-9, 0, 5, 5}, .name = "c", .score = 1}};
  EXPECT_EQ(Count(DrawBoxes(photo, boxes), kGrey), 50 * 60);
  EXPECT_EQ(Count(DrawBoxes(photo, {}), kGrey), 50 * 60);
}

TEST(DrawBoxes, SaysWhatIsNotFinite) {
  const DrawnBox box = {.box = {0, std::numeric_limits<double>::infinity(), 1, 1}, .name = "cat"};
  const std::string message = ErrorMessage([&] { DrawBoxes(Grey(9, 9), {&box, 1}); });
  EXPECT_NE(message.find("cat"), message.npos) << message;
}

TEST(DrawBoxes, ManyBoxesAreDrawnQuickly) {
  std::vector<DrawnBox> boxes;
  for (int i = 0; i < 20'000; ++i) {
    boxes.push_back({.box = {double(i % 97), double(i % 89), 3, 3}, .name = "cat", .score = 1.0 / (i + 1)});
  }
  EXPECT_LT(Count(DrawBoxes(Grey(100, 100), boxes), kGrey), 100 * 100);
}

TEST(ClassColours, DifferAndCarryText) {
  for (int64_t i = 0; i < kClassColours; ++i) {
    const Colour colour = ClassColour(i);
    EXPECT_EQ(ClassColour(i + kClassColours), colour);
    for (int64_t j = 0; j < i; ++j) EXPECT_NE(ClassColour(j), colour);
    const Colour text = TextColourOn(colour);
    EXPECT_TRUE(text == (Colour{0, 0, 0}) || text == (Colour{255, 255, 255}));
  }
  EXPECT_EQ(TextColourOn({255, 255, 0}), (Colour{0, 0, 0}));
  EXPECT_EQ(TextColourOn({0, 0, 160}), (Colour{255, 255, 255}));
  EXPECT_NE(ErrorMessage([] { ClassColour(-1); }), "");
}

}  // namespace
}  // namespace qkv::app
