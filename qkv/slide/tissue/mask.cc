#include "qkv/slide/tissue/mask.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "qkv/core/parallel.h"
#include "qkv/core/work.h"
#include "qkv/image/resize.h"

namespace qkv::slide {
namespace {

// Glass is bright and nearly grey: at least this in each channel, channels at most this apart.
constexpr int kGlassLevel = 200, kGlassSpread = 14;
// Stains are darker or less green than this: ink of a green pen has so much more green than red and blue.
constexpr int kInkGreen = 40;
// Darker pixels count as this bright, or the noise of black would be saturated.
constexpr int kDarkest = 128;

// The most frequent value of glass in each channel; white where the picture has too little glass to say. Looked for in
// a small picture, without the noise that makes pale tissue grey.
std::array<int, 3> GlassColour(const image::Image& whole) {
  constexpr int64_t kGlassSide = 128;
  const image::Image picture = image::Resize(whole, std::min(whole.height(), kGlassSide),
                                             std::min(whole.width(), kGlassSide), image::Filter::kBox);
  std::array<std::array<int64_t, 256>, 3> counts{};
  const uint8_t* const rgb = picture.pixels.data();
  const int64_t pixels = picture.height() * picture.width();
  int64_t glass = 0;
  for (int64_t i = 0; i < pixels; ++i) {
    const auto [low, high] = std::minmax({rgb[3 * i], rgb[3 * i + 1], rgb[3 * i + 2]});
    if (low < kGlassLevel || high - low > kGlassSpread) continue;
    ++glass;
    for (int c = 0; c < 3; ++c) ++counts[c][rgb[3 * i + c]];
  }
  constexpr int64_t kLeastShare = 100;  // one pixel in so many
  std::array<int, 3> colour{255, 255, 255};
  if (glass * kLeastShare < pixels) return colour;
  for (int c = 0; c < 3; ++c) {
    colour[c] = static_cast<int>(std::max_element(counts[c].begin(), counts[c].end()) - counts[c].begin());
  }
  return colour;
}

// Joins the pieces of a mask, or of what it leaves out, and counts their pixels.
class Pieces {
 public:
  // Pixels that are `value` belong together if they share a side, or, `corners`, a corner.
  Pieces(const Mask& mask, uint8_t value, bool corners) : parent_(mask.inside.size()), size_(mask.inside.size(), 1) {
    std::iota(parent_.begin(), parent_.end(), 0);
    const auto same = [&](int64_t x, int64_t y) {
      return x >= 0 && x < mask.width && y >= 0 && mask.inside[static_cast<size_t>(y * mask.width + x)] == value;
    };
    for (int64_t y = 0; y < mask.height; ++y) {
      Spend(mask.width);
      for (int64_t x = 0; x < mask.width; ++x) {
        if (!same(x, y)) continue;
        const int64_t at = y * mask.width + x;
        if (same(x - 1, y)) Join(at, at - 1);
        if (same(x, y - 1)) Join(at, at - mask.width);
        if (corners && same(x - 1, y - 1)) Join(at, at - mask.width - 1);
        if (corners && same(x + 1, y - 1)) Join(at, at - mask.width + 1);
      }
    }
  }

  size_t RootOf(int64_t pixel) {
    size_t at = static_cast<size_t>(pixel);
    while (parent_[at] != at) at = parent_[at] = parent_[parent_[at]];
    return at;
  }
  int64_t SizeOf(int64_t pixel) { return size_[RootOf(pixel)]; }

 private:
  void Join(int64_t a, int64_t b) {
    size_t large = RootOf(a), small = RootOf(b);
    if (large == small) return;
    if (size_[large] < size_[small]) std::swap(large, small);
    parent_[small] = static_cast<uint32_t>(large);
    size_[large] += size_[small];
  }

  std::vector<uint32_t> parent_;
  std::vector<uint32_t> size_;
};

// The largest, or smallest, of each square of 2 · radius + 1 pixels, clipped to the picture: along rows, then columns.
void Extreme(Mask& mask, int64_t radius, bool largest) {
  std::vector<int64_t> before(static_cast<size_t>(std::max(mask.width, mask.height)) + 1);
  const uint8_t wanted = largest ? 1 : 0;
  const auto line = [&](uint8_t* values, int64_t length, int64_t stride) {
    Spend(length);
    for (int64_t i = 0; i < length; ++i) before[i + 1] = before[i] + (values[i * stride] == wanted);
    for (int64_t i = 0; i < length; ++i) {
      const bool found = before[std::min(length, i + radius + 1)] > before[std::max<int64_t>(0, i - radius)];
      values[i * stride] = found ? wanted : 1 - wanted;
    }
  };
  for (int64_t y = 0; y < mask.height; ++y) line(mask.inside.data() + y * mask.width, mask.width, 1);
  for (int64_t x = 0; x < mask.width; ++x) line(mask.inside.data() + x, mask.height, mask.width);
}

// Fills one pixel wherever two inside pixels share a corner but no side. What that changes lies above and to the left,
// so one pass upwards, which steps back after each, finds all.
void JoinCorners(Mask& mask) {
  for (int64_t y = mask.height - 2; y >= 0; --y) {
    Spend(mask.width);
    uint8_t* const upper = mask.inside.data() + y * mask.width;
    const uint8_t* const lower = upper + mask.width;
    for (int64_t x = 0; x + 1 < mask.width; ++x) {
      if (upper[x] != lower[x + 1] || upper[x + 1] != lower[x] || upper[x] == lower[x]) continue;
      upper[x] = upper[x + 1] = 1;
      x = std::max<int64_t>(x - 2, -1);
    }
  }
}

// The medians of row y: a histogram of the square moves along it (Huang 1979).
void MedianRow(const std::vector<uint8_t>& values, int64_t width, int64_t height, int64_t y, int64_t radius,
               uint8_t* result) {
  const int64_t top = std::max<int64_t>(0, y - radius), bottom = std::min(height, y + radius + 1);
  std::array<int, 256> counts{};
  int median = 0, below = 0, total = 0;  // values below the median, and all
  const auto add = [&](int64_t x, int sign) {
    for (int64_t row = top; row < bottom; ++row) {
      const uint8_t value = values[static_cast<size_t>(row * width + x)];
      counts[value] += sign;
      below += value < median ? sign : 0;
      total += sign;
    }
  };
  for (int64_t x = 0; x < std::min(width, radius); ++x) add(x, 1);
  for (int64_t x = 0; x < width; ++x) {
    if (x + radius < width) add(x + radius, 1);
    if (x > radius) add(x - radius - 1, -1);
    while (below > total / 2) below -= counts[--median];
    while (below + counts[median] <= total / 2) below += counts[median++];
    result[x] = static_cast<uint8_t>(median);
  }
}

}  // namespace

std::vector<uint8_t> Colourfulness(const image::Image& picture) {
  const std::array<int, 3> glass = GlassColour(picture);
  const int64_t pixels = picture.height() * picture.width();
  std::vector<uint8_t> result(static_cast<size_t>(pixels));
  const uint8_t* rgb = picture.pixels.data();
  for (int64_t i = 0; i < pixels; ++i, rgb += 3) {
    if (i % picture.width() == 0) Spend(picture.width());
    std::array<int, 3> light{};
    for (int c = 0; c < 3; ++c) light[c] = std::min(255, rgb[c] * 255 / glass[c]);
    const auto [low, high] = std::minmax({light[0], light[1], light[2]});
    const bool ink = light[1] - std::max(light[0], light[2]) > kInkGreen;
    result[static_cast<size_t>(i)] =
        ink ? 0 : static_cast<uint8_t>(std::min(255, (high - low) * 255 / std::max(high, kDarkest)));
  }
  return result;
}

std::vector<uint8_t> MedianBlur(const std::vector<uint8_t>& values, int64_t width, int64_t height, int64_t radius) {
  std::vector<uint8_t> result(values.size());
  constexpr int64_t kRows = 16;  // a task
  ParallelFor(height, kRows, [&](int64_t begin, int64_t end) {
    for (int64_t y = begin; y < end; ++y) {
      CheckTask();
      MedianRow(values, width, height, y, radius, result.data() + y * width);
    }
  });
  CheckCancelled();
  return result;
}

int OtsuThreshold(const std::array<int64_t, 256>& histogram) {
  double total = 0, sum = 0;
  for (int value = 0; value < 256; ++value) {
    total += static_cast<double>(histogram[value]);
    sum += value * static_cast<double>(histogram[value]);
  }
  double lower = 0, lower_sum = 0, best = -1;
  int threshold = 0;
  for (int value = 0; value < 256; ++value) {
    lower += static_cast<double>(histogram[value]);
    lower_sum += value * static_cast<double>(histogram[value]);
    if (lower == 0 || lower == total) continue;
    const double apart = lower_sum / lower - (sum - lower_sum) / (total - lower);
    const double variance = lower * (total - lower) * apart * apart;  // between the classes
    if (variance > best) best = variance, threshold = value;
  }
  return threshold;
}

void Close(Mask& mask, int64_t radius) {
  Extreme(mask, radius, true);
  Extreme(mask, radius, false);
}

void Tidy(Mask& mask, double min_piece, double min_hole, bool keep_holes) {
  JoinCorners(mask);
  {
    Pieces outside(mask, 0, true);
    std::vector<uint8_t> open(mask.inside.size(), 0);  // roots of what reaches the border
    for (int64_t i = 0; i < mask.width; ++i) {
      open[outside.RootOf(i)] = open[outside.RootOf((mask.height - 1) * mask.width + i)] = 1;
    }
    for (int64_t i = 0; i < mask.height; ++i) {
      open[outside.RootOf(i * mask.width)] = open[outside.RootOf(i * mask.width + mask.width - 1)] = 1;
    }
    for (int64_t i = 0; i < std::ssize(mask.inside); ++i) {
      if (mask.inside[i] || open[outside.RootOf(i)]) continue;
      if (!keep_holes || static_cast<double>(outside.SizeOf(i)) < min_hole) mask.inside[i] = 1;
    }
  }
  Pieces inside(mask, 1, false);
  for (int64_t i = 0; i < std::ssize(mask.inside); ++i) {
    if (mask.inside[i] && static_cast<double>(inside.SizeOf(i)) < min_piece) mask.inside[i] = 0;
  }
}

}  // namespace qkv::slide
