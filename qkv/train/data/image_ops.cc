#include "qkv/train/data/image_ops.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "qkv/core/error.h"

namespace qkv::train {
namespace {

using image::Image;
using Table = std::array<uint8_t, 256>;
using Histogram = std::array<int64_t, 256>;

uint8_t Clip(double x) { return static_cast<uint8_t>(x <= 0 ? 0 : x >= 255 ? 255 : x); }

Histogram ComputeHistogram(const Image& image, int64_t channel) {
  Histogram histogram{};
  for (int64_t i = channel; i < image.pixels.size(); i += image.channels()) ++histogram[image.pixels[i]];
  return histogram;
}

void Apply(const Table& table, Image& image, int64_t channel) {
  for (int64_t i = channel; i < image.pixels.size(); i += image.channels()) image.pixels[i] = table[image.pixels[i]];
}

template <typename F>
void ApplyToAll(Image& image, F&& level) {
  Table table;
  for (int i = 0; i < 256; ++i) table[static_cast<size_t>(i)] = static_cast<uint8_t>(level(i));
  for (uint8_t& value : image.pixels.span()) value = table[value];
}

// Pillow's fixed-point luma (ITU-R 601-2).
int Luma(const uint8_t* rgb) { return (rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16; }

// Image.blend, in single precision as in Pillow.
uint8_t Blend(uint8_t poor, uint8_t rich, float factor) {
  return Clip(static_cast<float>(poor) + factor * static_cast<float>(rich - poor));
}

// Inside the border, each pixel becomes (sum of its 3 × 3 neighbourhood + 4 times itself) / 13 (ImageFilter.SMOOTH).
void Smooth(const Image& image, Image& out) {
  const int64_t H = image.height(), W = image.width(), C = image.channels();
  out.pixels.Reuse(image.pixels.shape());
  std::copy_n(image.pixels.data(), image.pixels.size(), out.pixels.data());
  const int64_t stride = W * C;
  constexpr float kSide = 1.0f / 13, kMiddle = 5.0f / 13;
  for (int64_t y = 1; y + 1 < H; ++y) {
    const uint8_t* row = image.pixels.data() + y * stride;
    for (int64_t x = C; x < stride - C; ++x) {
      float sum = 0.5f;
      for (const int64_t dy : {stride, int64_t{0}, -stride}) {
        const uint8_t* at = row + dy + x;
        sum += static_cast<float>(at[-C]) * kSide + static_cast<float>(at[0]) * (dy == 0 ? kMiddle : kSide) +
               static_cast<float>(at[C]) * kSide;
      }
      out.pixels[y * stride + x] = Clip(sum);
    }
  }
}

struct Hsv {
  uint8_t h, s, v;
};

// RGB–HSV conversion (Foley et al.) with Pillow's rounding.
Hsv ToHsv(const uint8_t* rgb) {
  const uint8_t r = rgb[0], g = rgb[1], b = rgb[2];
  const uint8_t high = std::max({r, g, b}), low = std::min({r, g, b});
  if (high == low) return {0, 0, high};
  const auto range = static_cast<float>(high - low);
  const float s = range / static_cast<float>(high);
  const float rc = static_cast<float>(high - r) / range, gc = static_cast<float>(high - g) / range,
              bc = static_cast<float>(high - b) / range;
  float h = r == high ? bc - gc : static_cast<float>(g == high ? 2.0 + rc - bc : 4.0 + gc - rc);
  h = static_cast<float>(std::fmod(h / 6.0 + 1.0, 1.0));
  return {Clip(static_cast<int>(h * 255.0)), Clip(static_cast<int>(s * 255.0)), high};
}

void ToRgb(const Hsv& hsv, uint8_t* rgb) {
  if (hsv.s == 0) {
    rgb[0] = rgb[1] = rgb[2] = hsv.v;
    return;
  }
  const auto angle = static_cast<float>(hsv.h * 6.0 / 255.0), s = static_cast<float>(hsv.s / 255.0);
  const auto sector = static_cast<int>(std::floor(angle));
  const float f = angle - static_cast<float>(sector);
  const auto v = static_cast<float>(hsv.v);
  const auto level = [](double x) { return Clip(std::round(x)); };
  const uint8_t p = level(v * (1.0 - s)), q = level(v * (1.0 - s * f)), t = level(v * (1.0 - s * (1.0 - f)));
  const uint8_t colours[6][3] = {{hsv.v, t, p}, {q, hsv.v, p}, {p, hsv.v, t},
                                 {p, q, hsv.v}, {t, p, hsv.v}, {hsv.v, p, q}};
  std::copy_n(colours[sector % 6], 3, rgb);
}

}  // namespace

void FlipHorizontally(Image& image) {
  const int64_t W = image.width(), C = image.channels();
  for (int64_t y = 0; y < image.height(); ++y) {
    uint8_t* row = image.pixels.data() + y * W * C;
    for (int64_t x = 0; x < W / 2; ++x) std::swap_ranges(row + x * C, row + (x + 1) * C, row + (W - 1 - x) * C);
  }
}

void AutoContrast(Image& image) {
  for (int64_t c = 0; c < image.channels(); ++c) {
    const Histogram histogram = ComputeHistogram(image, c);
    int low = 0, high = 255;
    while (low < 255 && histogram[static_cast<size_t>(low)] == 0) ++low;
    while (high > 0 && histogram[static_cast<size_t>(high)] == 0) --high;
    if (high <= low) continue;
    const double scale = 255.0 / (high - low), offset = -low * scale;
    Table table;
    for (int i = 0; i < 256; ++i) table[static_cast<size_t>(i)] = Clip(static_cast<int>(i * scale + offset));
    Apply(table, image, c);
  }
}

void Equalize(Image& image) {
  for (int64_t c = 0; c < image.channels(); ++c) {
    const Histogram histogram = ComputeHistogram(image, c);
    const auto used = std::ranges::count_if(histogram, [](int64_t count) { return count > 0; });
    const auto last = std::find_if(histogram.rbegin(), histogram.rend(), [](int64_t count) { return count > 0; });
    if (used <= 1) continue;
    const int64_t step = (image.height() * image.width() - *last) / 255;
    if (step == 0) continue;
    Table table;
    int64_t sum = step / 2;
    for (size_t i = 0; i < 256; ++i) {
      table[i] = static_cast<uint8_t>(std::min<int64_t>(sum / step, 255));
      sum += histogram[i];
    }
    Apply(table, image, c);
  }
}

void Invert(Image& image) {
  ApplyToAll(image, [](int level) { return 255 - level; });
}

void Posterize(Image& image, int bits) {
  const int mask = ~((1 << (8 - bits)) - 1);
  ApplyToAll(image, [&](int level) { return level & mask; });
}

void Solarize(Image& image, int threshold) {
  ApplyToAll(image, [&](int level) { return level < threshold ? level : 255 - level; });
}

void SolarizeAdd(Image& image, int add) {
  ApplyToAll(image, [&](int level) { return level < 128 ? std::min(255, level + add) : level; });
}

void Brightness(Image& image, float factor) {
  ApplyToAll(image, [&](int level) { return Blend(0, static_cast<uint8_t>(level), factor); });
}

void Contrast(Image& image, float factor) {
  int64_t sum = 0;
  const int64_t pixels = image.height() * image.width();
  for (int64_t i = 0; i < pixels; ++i) {
    const uint8_t* at = image.pixels.data() + i * image.channels();
    sum += image.channels() == 3 ? Luma(at) : at[0];
  }
  const auto mean = static_cast<uint8_t>(static_cast<double>(sum) / static_cast<double>(pixels) + 0.5);
  ApplyToAll(image, [&](int level) { return Blend(mean, static_cast<uint8_t>(level), factor); });
}

void Saturation(Image& image, float factor) {
  if (image.channels() != 3) return;
  for (int64_t i = 0; i < image.pixels.size(); i += 3) {
    uint8_t* at = image.pixels.data() + i;
    const auto grey = static_cast<uint8_t>(Luma(at));
    for (int c = 0; c < 3; ++c) at[c] = Blend(grey, at[c], factor);
  }
}

void Sharpness(Image& image, float factor, Image& spare) {
  Smooth(image, spare);
  for (int64_t i = 0; i < image.pixels.size(); ++i) {
    image.pixels[i] = Blend(spare.pixels[i], image.pixels[i], factor);
  }
}

void ShiftHue(Image& image, uint8_t shift) {
  if (image.channels() != 3) return;
  for (int64_t i = 0; i < image.pixels.size(); i += 3) {
    Hsv hsv = ToHsv(image.pixels.data() + i);
    hsv.h = static_cast<uint8_t>(hsv.h + shift);
    ToRgb(hsv, image.pixels.data() + i);
  }
}

std::array<double, 6> Rotation(double degrees, int64_t height, int64_t width) {
  // Rounded as in Pillow, so that a quarter turn is exact.
  const auto rounded = [](double x) { return std::round(x * 1e15) / 1e15; };
  const double angle = -degrees * std::numbers::pi / 180;
  const double cosine = rounded(std::cos(angle)), sine = rounded(std::sin(angle));
  const double x = static_cast<double>(width) / 2, y = static_cast<double>(height) / 2;
  return {cosine, sine, cosine * -x + sine * -y + x, -sine, cosine, -sine * -x + cosine * -y + y};
}

void Affine(Image& image, const std::array<double, 6>& m, std::span<const uint8_t> fill, Image& spare) {
  const int64_t H = image.height(), W = image.width(), C = image.channels();
  Require(fill.empty() || std::ssize(fill) == C, "augment: a fill of {} values for {} channels", fill.size(), C);
  spare.pixels.Reuse(image.pixels.shape());
  const uint8_t* in = image.pixels.data();
  uint8_t* out = spare.pixels.data();
  for (int64_t y = 0; y < H; ++y) {
    for (int64_t x = 0; x < W; ++x, out += C) {
      const double column = static_cast<double>(x) + 0.5, row = static_cast<double>(y) + 0.5;
      const double from_x = m[0] * column + m[1] * row + m[2], from_y = m[3] * column + m[4] * row + m[5];
      if (!(from_x >= 0 && from_x < static_cast<double>(W) && from_y >= 0 && from_y < static_cast<double>(H))) {
        for (int64_t c = 0; c < C; ++c) out[c] = fill.empty() ? 0 : fill[static_cast<size_t>(c)];
        continue;
      }
      const double left = std::floor(from_x - 0.5), top = std::floor(from_y - 0.5);
      const double dx = from_x - 0.5 - left, dy = from_y - 0.5 - top;
      const auto x0 = std::max<int64_t>(static_cast<int64_t>(left), 0),
                 y0 = std::max<int64_t>(static_cast<int64_t>(top), 0);
      const int64_t x1 = std::min<int64_t>(static_cast<int64_t>(left) + 1, W - 1),
                    y1 = std::min<int64_t>(static_cast<int64_t>(top) + 1, H - 1);
      for (int64_t c = 0; c < C; ++c) {
        const auto at = [&](int64_t row_of, int64_t column_of) {
          return static_cast<double>(in[(row_of * W + column_of) * C + c]);
        };
        const double upper = at(y0, x0) + (at(y0, x1) - at(y0, x0)) * dx;
        const double lower = at(y1, x0) + (at(y1, x1) - at(y1, x0)) * dx;
        out[c] = static_cast<uint8_t>(upper + (lower - upper) * dy);
      }
    }
  }
  std::swap(image, spare);
}

}  // namespace qkv::train
