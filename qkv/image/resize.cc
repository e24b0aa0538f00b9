#include "qkv/image/resize.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "qkv/image/resize_region.h"

namespace qkv::image {
namespace {

// Weights are integers with this many fraction bits: 8 bits of sample and a sum past 1 fit in 32 bits.
constexpr int kPrecision = 32 - 8 - 2;

struct Kernel {
  double support;
  double (*weight)(double x);
};

double Sinc(double x) {
  if (x == 0) return 1;
  x *= std::numbers::pi;
  return std::sin(x) / x;
}

double Box(double x) { return x > -0.5 && x <= 0.5 ? 1 : 0; }

double Bilinear(double x) {
  x = std::abs(x);
  return x < 1 ? 1 - x : 0;
}

double Hamming(double x) {
  x = std::abs(x);
  if (x == 0) return 1;
  if (x >= 1) return 0;
  x *= std::numbers::pi;
  return std::sin(x) / x * (0.54 + 0.46 * std::cos(x));
}

double Bicubic(double x) {
  constexpr double a = -0.5;  // Keys 1981
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

double Lanczos(double x) { return x >= -3 && x < 3 ? Sinc(x) * Sinc(x / 3) : 0; }

Kernel KernelOf(Filter filter) {
  switch (filter) {
    case Filter::kBox:
      return {0.5, Box};
    case Filter::kBilinear:
      return {1, Bilinear};
    case Filter::kHamming:
      return {1, Hamming};
    case Filter::kLanczos:
      return {3, Lanczos};
    default:
      return {2, Bicubic};
  }
}

/// For each output position of an axis, which inputs it sums, and with what weights.
struct Taps {
  int64_t capacity = 0;          // weights kept for an output
  std::vector<int64_t> first;    // [out]
  std::vector<int32_t> count;    // [out]
  std::vector<int32_t> weights;  // [out, capacity]

  int64_t begin() const { return *std::min_element(first.begin(), first.end()); }
  int64_t end() const {
    int64_t end = 0;
    for (size_t i = 0; i < first.size(); ++i) end = std::max(end, first[i] + count[i]);
    return end;
  }
};

/// The taps of outputs [begin, begin + length) of an axis that is resampled from `in` to `out` positions.
/// Every operation is in Pillow's order, since the weights are rounded after it.
Taps MakeTaps(int64_t in, int64_t out, int64_t begin, int64_t length, const Kernel& kernel) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double filter_scale = std::max(scale, 1.0);
  const double support = kernel.support * filter_scale;
  const double inverse = 1.0 / filter_scale;
  Taps taps;
  taps.capacity = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  taps.weights.resize(static_cast<size_t>(taps.capacity * length));
  std::vector<double> exact(static_cast<size_t>(taps.capacity));
  for (int64_t i = 0; i < length; ++i) {
    const double center = (static_cast<double>(begin + i) + 0.5) * scale;
    const int64_t low = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    const int64_t high = std::min<int64_t>(static_cast<int64_t>(center + support + 0.5), in);
    double sum = 0;
    for (int64_t k = 0; k < high - low; ++k) {
      exact[k] = kernel.weight((static_cast<double>(k + low) - center + 0.5) * inverse);
      sum += exact[k];
    }
    for (int64_t k = 0; k < high - low; ++k) {
      const double weight = (sum != 0 ? exact[k] / sum : exact[k]) * (1 << kPrecision);
      taps.weights[i * taps.capacity + k] = static_cast<int32_t>(weight < 0 ? weight - 0.5 : weight + 0.5);
    }
    taps.first.push_back(low);
    taps.count.push_back(static_cast<int32_t>(high - low));
  }
  return taps;
}

uint8_t Round(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kPrecision, 0, 255)); }

/// in: [rows, in_width, C], row 0 the first that is needed; out: [rows, taps, C].
template <int C>
void Horizontal(const uint8_t* in, int64_t rows, int64_t in_width, const Taps& taps, uint8_t* out) {
  const int64_t out_width = static_cast<int64_t>(taps.first.size());
  for (int64_t y = 0; y < rows; ++y, in += in_width * C) {
    for (int64_t x = 0; x < out_width; ++x, out += C) {
      const int32_t* weights = &taps.weights[x * taps.capacity];
      const uint8_t* in_x = in + taps.first[x] * C;
      int32_t sum[C];
      for (int c = 0; c < C; ++c) sum[c] = 1 << (kPrecision - 1);
      for (int64_t k = 0; k < taps.count[x]; ++k)
        for (int c = 0; c < C; ++c) sum[c] += in_x[k * C + c] * weights[k];
      for (int c = 0; c < C; ++c) out[c] = Round(sum[c]);
    }
  }
}

/// in: [.., row] starting at input row `in_begin`; out: [taps, row].
void Vertical(const uint8_t* in, int64_t in_begin, int64_t row, const Taps& taps, uint8_t* out) {
  std::vector<int32_t> sum(static_cast<size_t>(row));
  for (size_t y = 0; y < taps.first.size(); ++y, out += row) {
    std::fill(sum.begin(), sum.end(), 1 << (kPrecision - 1));
    for (int64_t k = 0; k < taps.count[y]; ++k) {
      const int32_t weight = taps.weights[y * taps.capacity + k];
      const uint8_t* in_k = in + (taps.first[y] + k - in_begin) * row;
      for (int64_t i = 0; i < row; ++i) sum[i] += in_k[i] * weight;
    }
    for (int64_t i = 0; i < row; ++i) out[i] = Round(sum[i]);
  }
}

/// Columns or rows of the input that outputs [begin, begin + length) copy. Pillow adds the step up, so we do.
std::vector<int64_t> NearestPositions(int64_t in, int64_t out, int64_t begin, int64_t length) {
  const double step = static_cast<double>(in) / static_cast<double>(out);
  std::vector<int64_t> positions;
  double at = step * 0.5;
  for (int64_t i = 0; i < begin + length; ++i, at += step)
    if (i >= begin) positions.push_back(std::min(static_cast<int64_t>(at), in - 1));
  return positions;
}

Image Nearest(const Image& image, const Region& region) {
  const int64_t channels = image.channels();
  const auto rows = NearestPositions(image.height(), region.full_height, region.top, region.height);
  const auto columns = NearestPositions(image.width(), region.full_width, region.left, region.width);
  Image result{Tensor<uint8_t>::Uninitialised({region.height, region.width, channels})};
  uint8_t* out = result.pixels.data();
  for (const int64_t y : rows) {
    const uint8_t* in = image.pixels.data() + y * image.width() * channels;
    for (const int64_t x : columns)
      for (int64_t c = 0; c < channels; ++c) *out++ = in[x * channels + c];
  }
  return result;
}

/// Alpha (the last of 2 or 4 channels) multiplied into the others, or divided out again.
void Premultiply(Image& image, bool undo) {
  const int64_t channels = image.channels();
  uint8_t* pixel = image.pixels.data();
  for (int64_t i = 0; i < image.height() * image.width(); ++i, pixel += channels) {
    const int alpha = pixel[channels - 1];
    for (int64_t c = 0; c + 1 < channels; ++c) {
      if (undo) {
        if (alpha != 0) pixel[c] = static_cast<uint8_t>(std::min(255 * pixel[c] / alpha, 255));
      } else {
        const int t = pixel[c] * alpha + 128;
        pixel[c] = static_cast<uint8_t>(((t >> 8) + t) >> 8);
      }
    }
  }
}

Image Resample(const Image& image, const Region& region, const Kernel& kernel) {
  const int64_t channels = image.channels();
  const auto columns = MakeTaps(image.width(), region.full_width, region.left, region.width, kernel);
  const auto rows = MakeTaps(image.height(), region.full_height, region.top, region.height, kernel);
  // A pass that leaves its axis as it is has taps of weight one, and need not be computed; Pillow skips it.
  const bool horizontal = region.full_width != image.width() || region.width != image.width();
  const bool vertical = region.full_height != image.height();
  const int64_t in_begin = vertical ? rows.begin() : region.top;
  const int64_t in_end = vertical ? rows.end() : region.top + region.height;

  Image narrow;  // the rows that the vertical pass reads
  const uint8_t* in = image.pixels.data() + in_begin * image.width() * channels;
  if (horizontal) {
    narrow.pixels = Tensor<uint8_t>::Uninitialised({in_end - in_begin, region.width, channels});
    using Pass = void (*)(const uint8_t*, int64_t, int64_t, const Taps&, uint8_t*);
    constexpr Pass kPasses[] = {Horizontal<1>, Horizontal<2>, Horizontal<3>, Horizontal<4>};
    kPasses[channels - 1](in, in_end - in_begin, image.width(), columns, narrow.pixels.data());
    if (!vertical) return narrow;
    in = narrow.pixels.data();
  }
  Image result{Tensor<uint8_t>::Uninitialised({region.height, region.width, channels})};
  if (vertical) {
    Vertical(in, in_begin, region.width * channels, rows, result.pixels.data());
  } else {
    std::copy_n(in, result.pixels.size(), result.pixels.data());
  }
  return result;
}

}  // namespace

Image ResizeRegion(const Image& image, const Region& region, Filter filter) {
  Require(region.full_height > 0 && region.full_width > 0, "resize: to {} x {} pixels", region.full_width,
          region.full_height);
  Require(image.pixels.size() > 0 && image.channels() >= 1 && image.channels() <= 4, "resize: an image of shape {}",
          ToString(image.pixels.shape()));
  if (filter == Filter::kNearest) return Nearest(image, region);
  const Kernel kernel = KernelOf(filter);
  const bool same_size = region.full_height == image.height() && region.full_width == image.width();
  if (image.channels() % 2 != 0 || same_size) return Resample(image, region, kernel);
  Image premultiplied{image.pixels.Clone()};
  Premultiply(premultiplied, /*undo=*/false);
  Image result = Resample(premultiplied, region, kernel);
  Premultiply(result, /*undo=*/true);
  return result;
}

Image Resize(const Image& image, int64_t height, int64_t width, Filter filter) {
  return ResizeRegion(image, {height, width, 0, 0, height, width}, filter);
}

}  // namespace qkv::image
