// What augmentation must have whatever its numbers are: shapes, ranges, frequencies, sums.
#include "qkv/train/data/augment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "qkv/train/data/image_ops.h"
#include "tests/support/errors.h"
#include "tests/train/data.h"

namespace qkv::train {
namespace {

using image::Image;

// Level = 8 y + x (of a small image), so that a pixel tells where it came from.
Image Places(int64_t height, int64_t width) {
  Image image{Tensor<uint8_t>({height, width, 1})};
  for (int64_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(i + 1);
  return image;
}

Image Augmented(const Augmentation& augmentation, const Image& image, int64_t height, int64_t width, uint64_t seed) {
  AugmentWorkspace workspace;
  Rng rng(seed);
  Image copy{image.pixels.Clone()};
  Augment(augmentation, height, width, rng, workspace, copy);
  EXPECT_EQ(copy.pixels.shape(), (Shape{height, width, image.channels()}));
  return copy;
}

bool Same(const Image& a, const Image& b) {
  return a.pixels.shape() == b.pixels.shape() && std::ranges::equal(a.pixels.span(), b.pixels.span());
}

TEST(Augment, NothingAskedNothingDone) {
  const Image image = NoiseImage(5, 7, 3, 1);
  EXPECT_TRUE(Same(Augmented({}, image, 5, 7, 2), image));
  EXPECT_TRUE(ErrorMessage([&] { Augmented({}, image, 7, 5, 2); }).find("expected 5 x 7") != std::string::npos);
}

TEST(Augment, PaddedCropsAreShifts) {
  const int64_t H = 6, W = 9, padding = 2;
  const Image image = Places(H, W);
  Augmentation augmentation{.crop = Augmentation::Crop::kPadded, .padding = padding, .fill = {200}};  // not of crops
  std::set<std::pair<int64_t, int64_t>> seen;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Image out = Augmented(augmentation, image, H, W, seed);
    int fitting = 0;
    for (int64_t down = -padding; down <= padding; ++down) {
      for (int64_t right = -padding; right <= padding; ++right) {
        bool fits = true;
        for (int64_t y = 0; y < H; ++y) {
          for (int64_t x = 0; x < W; ++x) {
            const bool inside = y - down >= 0 && y - down < H && x - right >= 0 && x - right < W;
            const uint8_t expected = inside ? *image.pixels.view().at(y - down, x - right, 0) : 0;
            fits &= *out.pixels.view().at(y, x, 0) == expected;
          }
        }
        if (fits) seen.insert({down, right}), ++fitting;
      }
    }
    EXPECT_EQ(fitting, 1);
  }
  EXPECT_EQ(seen.size(), 25u);  // a place missing in 300 of 25: 1e-4
}

TEST(Augment, PaddingMayBeLargerThanTheImage) {
  Augmentation augmentation{.crop = Augmentation::Crop::kPadded, .padding = 40};
  for (uint64_t seed = 0; seed < 100; ++seed) Augmented(augmentation, Places(3, 4), 3, 4, seed);
}

// Each pixel says where it is, so a crop's area and shape can be read off its corners.
TEST(Augment, ResizedCropsKeepToAreaAndRatio) {
  const int64_t H = 120, W = 200;
  Image image{Tensor<uint8_t>({H, W, 3})};
  for (int64_t y = 0; y < H; ++y) {
    for (int64_t x = 0; x < W; ++x) {
      *image.pixels.view().at(y, x, 0) = static_cast<uint8_t>(y);
      *image.pixels.view().at(y, x, 1) = static_cast<uint8_t>(x);
    }
  }
  Augmentation augmentation{.crop = Augmentation::Crop::kResized, .filter = image::Filter::kNearest};
  double least = 1, most = 0, widest = 0, narrowest = 1e9;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const Image out = Augmented(augmentation, image, 64, 64, seed);
    const View<const uint8_t> pixels = out.pixels;
    // Nearest: the outermost samples are half a step inside.
    const double height = (*pixels.at(63, 0, 0) - *pixels.at(0, 0, 0)) * 64.0 / 63;
    const double width = (*pixels.at(0, 63, 1) - *pixels.at(0, 0, 1)) * 64.0 / 63;
    least = std::min(least, height * width / (H * W)), most = std::max(most, height * width / (H * W));
    widest = std::max(widest, width / height), narrowest = std::min(narrowest, width / height);
  }
  // A pixel of rounding each way on the shortest sides there are, √(0.08 · 24000 · ¾) = 38.
  const double slack = 1 + 2.0 / 38;
  EXPECT_GT(least, 0.08 / slack / slack);
  EXPECT_LT(least, 0.12);
  EXPECT_GT(most, 0.75);
  EXPECT_LT(widest, 4.0 / 3 * slack * slack);
  EXPECT_GT(narrowest, 0.75 / slack / slack);
  EXPECT_GT(widest, 1.25);
  EXPECT_LT(narrowest, 0.8);
}

TEST(Augment, AWholeImageCanBeTheCrop) {
  const Image image = NoiseImage(16, 16, 3, 1);
  Augmentation augmentation{.crop = Augmentation::Crop::kResized, .least_area = 1, .greatest_ratio = 1};
  EXPECT_TRUE(Same(Augmented(augmentation, image, 16, 16, 2), image));
  // No part of a strip has that shape: its middle.
  const Image strip = Augmented(augmentation, Places(2, 20), 2, 2, 2);
  EXPECT_EQ(strip.pixels[0], 10);
}

TEST(Augment, FlipsAsOftenAsAsked) {
  const Image image = NoiseImage(4, 4, 1, 1);
  Image mirrored{image.pixels.Clone()};
  FlipHorizontally(mirrored);
  int flipped = 0;
  const int n = 2000;
  for (uint64_t seed = 0; seed < n; ++seed) {
    const Image out = Augmented({.flip = 0.3}, image, 4, 4, seed);
    const bool flip = Same(out, mirrored);
    EXPECT_TRUE(flip || Same(out, image));
    flipped += flip;
  }
  EXPECT_NEAR(flipped, 0.3 * n, 5 * std::sqrt(n * 0.3 * 0.7));
}

TEST(Augment, RandAugmentGrowsWithItsMagnitude) {
  const Image image = NoiseImage(12, 12, 3, 1);
  const auto change = [&](int64_t operations, double magnitude) {
    double sum = 0;
    int same = 0;
    for (uint64_t seed = 0; seed < 400; ++seed) {
      const Image out = Augmented({.operations = operations, .magnitude = magnitude}, image, 12, 12, seed);
      same += Same(out, image);
      for (int64_t i = 0; i < image.pixels.size(); ++i) sum += std::abs(out.pixels[i] - image.pixels[i]);
    }
    return std::pair(sum / 400 / static_cast<double>(image.pixels.size()), same);
  };
  EXPECT_GT(change(2, 9).first, change(2, 2).first);
  EXPECT_GT(change(4, 9).first, change(2, 9).first);
  // Each of the operations is skipped half of the time; some change nothing where the noise has all levels.
  EXPECT_GT(change(2, 9).second, 400 / 4 - 5 * std::sqrt(400 * 0.25 * 0.75));
  EXPECT_LT(change(2, 9).second, 200);
}

// A white image is black or white after everything but what moves it, which shows the mean beside it.
TEST(Augment, RandAugmentFillsWithTheMean) {
  EXPECT_EQ(MeanLevels({.mean = {0.485f, 0.456f, 0.406f, -1, 3}}), (std::vector<uint8_t>{124, 116, 104, 0, 255}));
  Image white{Tensor<uint8_t>({16, 16, 3})};
  std::ranges::fill(white.pixels.span(), uint8_t{255});
  const Augmentation augmentation{.operations = 1, .fill = {124, 116, 104}};
  int moved = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Image out = Augmented(augmentation, white, 16, 16, seed);
    const uint8_t* const middle = out.pixels.view().at(8, 8);
    bool beside = false;
    for (int64_t i = 0; i < 16 * 16 && middle[0] == 255; ++i) {
      const uint8_t* const at = out.pixels.data() + 3 * i;
      const bool mean = at[0] == 124 && at[1] == 116 && at[2] == 104;
      EXPECT_TRUE(mean || at[0] == 255) << int{at[0]};
      beside |= mean;
    }
    moved += beside;
  }
  EXPECT_NEAR(moved, 300 / 2 / 3, 5 * std::sqrt(300 / 6.0 * 5 / 6));  // five of the fifteen, half of the time
}

TEST(Augment, GreyStaysGrey) {
  Augmentation everything{.crop = Augmentation::Crop::kPadded, .flip = 0.5, .operations = 3, .jitter = 0.4, .hue = 0.1};
  for (uint64_t seed = 0; seed < 200; ++seed) Augmented(everything, NoiseImage(7, 5, 1, seed), 7, 5, seed);
}

TEST(Augment, JitterStaysWithinItsFactors) {
  Image grey{Tensor<uint8_t>({2, 2, 3})};  // of one grey, so that only brightness does anything
  std::ranges::fill(grey.pixels.span(), uint8_t{100});
  int low = 255, high = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const Image out = Augmented({.jitter = 0.4}, grey, 2, 2, seed);
    low = std::min<int>(low, out.pixels[0]), high = std::max<int>(high, out.pixels[0]);
  }
  EXPECT_GE(low, 59);
  EXPECT_LE(low, 63);
  EXPECT_LE(high, 140);
  EXPECT_GE(high, 137);
}

TEST(Augment, TheSameNumbersGiveTheSameImage) {
  Augmentation everything{
      .crop = Augmentation::Crop::kResized, .flip = 0.5, .operations = 2, .jitter = 0.4, .hue = 0.1};
  const Image image = NoiseImage(30, 20, 3, 1);
  int differ = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_TRUE(Same(Augmented(everything, image, 16, 16, seed), Augmented(everything, image, 16, 16, seed)));
    differ += !Same(Augmented(everything, image, 16, 16, seed), Augmented(everything, image, 16, 16, seed + 1));
  }
  EXPECT_EQ(differ, 50);
}

TEST(Erase, MakesARectangleOfNoise) {
  const int64_t H = 20, W = 30;
  int erased = 0;
  double area = 0, sum = 0, squares = 0;
  const int n = 1000;
  for (uint64_t seed = 0; seed < n; ++seed) {
    Tensor<float> pixels({3, H, W});
    std::ranges::fill(pixels.span(), 50.0f);
    Rng rng(seed);
    Erase({.erase = 0.4}, rng, pixels);
    int64_t count = 0, top = H, bottom = -1, left = W, right = -1;
    for (int64_t y = 0; y < H; ++y) {
      for (int64_t x = 0; x < W; ++x) {
        if (*pixels.view().at(0, y, x) == 50.0f) continue;
        ++count;
        top = std::min(top, y), bottom = std::max(bottom, y), left = std::min(left, x), right = std::max(right, x);
        EXPECT_NE(*pixels.view().at(2, y, x), 50.0f);
        sum += *pixels.view().at(1, y, x), squares += std::pow(*pixels.view().at(1, y, x), 2);
      }
    }
    if (count == 0) continue;
    EXPECT_EQ(count, (bottom - top + 1) * (right - left + 1));
    ++erased;
    area += static_cast<double>(count);
  }
  EXPECT_NEAR(erased, 0.4 * n, 5 * std::sqrt(n * 0.4 * 0.6));
  EXPECT_GT(area / erased / (H * W), 0.05);
  EXPECT_LT(area / erased / (H * W), 0.25);
  EXPECT_NEAR(sum / area, 0, 5 / std::sqrt(area));
  EXPECT_NEAR(squares / area, 1, 5 * std::sqrt(2 / area));
}

// Constant images, so that what is whose can be counted.
TEST(Mix, SharesAreWhatTheTargetsSay) {
  const int64_t H = 16, W = 16;
  for (const auto& [mixup, cutmix] : {std::pair(0.8, 0.0), std::pair(0.0, 1.0), std::pair(0.8, 1.0)}) {
    int weighted = 0;
    double sum = 0;
    const int n = 400;
    for (uint64_t seed = 0; seed < n; ++seed) {
      Tensor<float> a({2, H, W}), b({2, H, W});
      std::ranges::fill(a.span(), 1.0f);
      Rng rng(seed);
      const double share = Mix({.mixup = mixup, .cutmix = cutmix}, rng, a, b);
      EXPECT_GE(share, 0);
      EXPECT_LE(share, 1);
      sum += share;
      double mean = 0;
      bool between = false;
      for (int64_t i = 0; i < a.size(); ++i) {
        mean += a[i] / static_cast<double>(a.size());
        between |= a[i] > 0 && a[i] < 1;
        EXPECT_NEAR(a[i] + b[i], 1, 1e-6);
      }
      EXPECT_NEAR(mean, share, 1e-6);
      weighted += between;
    }
    EXPECT_NEAR(sum / n, mixup > 0 && cutmix == 0 ? 0.5 : sum / n, 5 * 0.35 / std::sqrt(n));
    if (cutmix == 0) {
      EXPECT_GT(weighted, n * 9 / 10);
    }
    if (mixup == 0) {
      EXPECT_EQ(weighted, 0);
    }
    if (mixup > 0 && cutmix > 0) {
      EXPECT_NEAR(weighted, n / 2, 5 * std::sqrt(n / 4) + n / 20);
    }
  }
}

// Beta(α, α) has mean ½ and variance 1 / (4 (2 α + 1)).
TEST(Mix, SharesAreBetaDistributed) {
  for (const double alpha : {0.2, 0.8, 1.0, 3.0}) {
    double sum = 0, squares = 0;
    const int n = 4000;
    Rng rng(3);
    for (int i = 0; i < n; ++i) {
      Tensor<float> a({1, 1, 1}), b({1, 1, 1});
      const double share = Mix({.mixup = alpha}, rng, a, b);
      sum += share, squares += (share - 0.5) * (share - 0.5);
    }
    const double variance = 1 / (4 * (2 * alpha + 1));
    EXPECT_NEAR(sum / n, 0.5, 5 * std::sqrt(variance / n)) << alpha;
    EXPECT_NEAR(squares / n, variance, 5 * 0.25 / std::sqrt(n)) << alpha;
  }
}

TEST(Augmentation, SaysWhatIsOutOfBounds) {
  EXPECT_EQ(ErrorMessage([] { Check({}); }), "");
  const auto refused = [](const Augmentation& augmentation, const char* what) {
    return ErrorMessage([&] { Check(augmentation); }).find(what) != std::string::npos;
  };
  EXPECT_TRUE(refused({.least_area = 0}, "least area"));
  EXPECT_TRUE(refused({.greatest_ratio = 0.5}, "ratio"));
  EXPECT_TRUE(refused({.padding = -1}, "padding"));
  EXPECT_TRUE(refused({.flip = 1.1}, "flip"));
  EXPECT_TRUE(refused({.magnitude = 11}, "magnitude"));
  EXPECT_TRUE(refused({.hue = 0.6}, "hue"));
  EXPECT_TRUE(refused({.erase = NAN}, "erase"));
  EXPECT_TRUE(refused({.mixup = -1}, "mixup"));
}

}  // namespace
}  // namespace qkv::train
