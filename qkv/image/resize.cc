#include "qkv/image/resize.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "qkv/image/resize_passes.h"
#include "qkv/image/resize_region.h"
#include "qkv/image/runs.h"
#include "qkv/image/workspace.h"

namespace qkv::image {
namespace {

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

Kernel FilterKernel(Filter filter) {
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

/// An axis resampled from `in` to `out` positions. Operations are in Pillow's order, since the weights are rounded
/// afterwards.
class Axis {
 public:
  Axis(int64_t in, int64_t out, const Kernel& kernel)
      : in_(in), scale_(static_cast<double>(in) / static_cast<double>(out)), kernel_(kernel) {}

  /// Weights of an output.
  int64_t capacity() const { return static_cast<int64_t>(std::ceil(support())) * 2 + 1; }
  /// The first input of an output, and the end of its inputs.
  int64_t Low(int64_t output) const {
    return std::max<int64_t>(static_cast<int64_t>(Center(output) - support() + 0.5), 0);
  }
  int64_t High(int64_t output) const {
    return std::min<int64_t>(static_cast<int64_t>(Center(output) + support() + 0.5), in_);
  }

  /// The taps of outputs [begin, end).
  void MakeTaps(int64_t begin, int64_t end, std::vector<double>& exact, Taps& taps) const {
    const double inverse = 1.0 / filter_scale();
    taps.capacity = capacity();
    taps.weights.resize(static_cast<size_t>(taps.capacity * (end - begin)));
    exact.resize(static_cast<size_t>(taps.capacity));
    taps.first.clear();
    taps.count.clear();
    int32_t* weights = taps.weights.data();
    for (int64_t output = begin; output < end; ++output, weights += taps.capacity) {
      const double center = Center(output);
      const int64_t low = Low(output), count = High(output) - low;
      Spend(kStepsPerTap * count);
      double sum = 0;
      for (int64_t k = 0; k < count; ++k) {
        exact[k] = kernel_.weight((static_cast<double>(k + low) - center + 0.5) * inverse);
        sum += exact[k];
      }
      for (int64_t k = 0; k < count; ++k) {
        const double weight = (sum != 0 ? exact[k] / sum : exact[k]) * (1 << kWeightBits);
        weights[k] = static_cast<int32_t>(weight < 0 ? weight - 0.5 : weight + 0.5);
      }
      taps.first.push_back(low);
      taps.count.push_back(static_cast<int32_t>(count));
    }
  }

  /// Calls use(taps, begin) for consecutive groups of the outputs [first, end): all of most images. The taps of an axis
  /// of millions of pixels would take more memory than the image.
  template <typename Use>
  void ForEachGroup(int64_t first, int64_t end, std::vector<double>& exact, Taps& taps, Use use) const {
    const int64_t most = std::max<int64_t>(1, kMaxWeights / capacity());
    for (int64_t begin = first; begin < end; begin += most) {
      MakeTaps(begin, std::min(end, begin + most), exact, taps);
      use(begin);
    }
  }

 private:
  static constexpr int64_t kMaxWeights = int64_t{1} << 20;
  static constexpr int64_t kStepsPerTap = 8;

  double filter_scale() const { return std::max(scale_, 1.0); }
  double support() const { return kernel_.support * filter_scale(); }
  double Center(int64_t output) const { return (static_cast<double>(output) + 0.5) * scale_; }

  const int64_t in_;
  const double scale_;
  const Kernel& kernel_;
};

/// Input columns or rows that outputs [begin, begin + length) copy. The step is accumulated, as in Pillow.
void NearestPositions(int64_t in, int64_t out, int64_t begin, int64_t length, std::vector<int64_t>& positions) {
  const double step = static_cast<double>(in) / static_cast<double>(out);
  positions.clear();
  double at = step * 0.5;
  for (int64_t i = 0; i < begin + length; ++i, at += step)
    if (i >= begin) positions.push_back(std::min(static_cast<int64_t>(at), in - 1));
}

void Nearest(const Image& image, const Region& region, Workspace& workspace) {
  const int64_t channels = image.channels();
  std::vector<int64_t>&rows = workspace.rows.first, &columns = workspace.columns.first;
  NearestPositions(image.height(), region.full_height, region.top, region.height, rows);
  NearestPositions(image.width(), region.full_width, region.left, region.width, columns);
  uint8_t* out = workspace.resized.pixels.data();
  for (const int64_t y : rows) {
    Spend(region.width);
    const uint8_t* in = image.pixels.data() + y * image.width() * channels;
    for (const int64_t x : columns)
      for (int64_t c = 0; c < channels; ++c) *out++ = in[x * channels + c];
  }
}

/// Multiplies alpha (the last of 2 or 4 channels) into the other channels, or divides it out.
void Premultiply(Image& image, bool undo) {
  const int64_t channels = image.channels();
  ForEachRun(image.height() * image.width(), [&](int64_t begin, int64_t end) {
    uint8_t* pixel = image.pixels.data() + begin * channels;
    for (int64_t i = begin; i < end; ++i, pixel += channels) {
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
  });
}

/// Pillow 13 runs the vertical pass first if that saves most: the height shrinks by more than twice as many pixels as
/// the width. Earlier versions never do, and round a few pixels of such images differently.
bool VerticalFirst(const Image& image, const Region& region) {
  const int64_t lost_height = image.height() - region.full_height, lost_width = image.width() - region.full_width;
  return lost_height > 0 && lost_height > 2 * lost_width;
}

void Resample(const Image& image, const Region& region, const Kernel& kernel, Workspace& workspace) {
  const int channels = static_cast<int>(image.channels());
  const int64_t stride = image.width() * channels;
  // Pillow skips the pass of an axis whose size is unchanged.
  const bool horizontal = region.full_width != image.width(), vertical = region.full_height != image.height();
  const int64_t left = region.left, right = left + region.width, top = region.top, bottom = top + region.height;
  const Axis columns(image.width(), region.full_width, kernel), rows(image.height(), region.full_height, kernel);
  // The part of the image that the passes read.
  const int64_t x0 = horizontal ? columns.Low(left) : left, x1 = horizontal ? columns.High(right - 1) : right;
  const int64_t y0 = vertical ? rows.Low(top) : top, y1 = vertical ? rows.High(bottom - 1) : bottom;
  const Plane in = {image.pixels.data() + y0 * stride + x0 * channels, stride, y1 - y0, (x1 - x0) * channels};
  const int64_t out_stride = region.width * channels;
  const auto sum_columns = [&](const Plane& plane, uint8_t* to) {
    columns.ForEachGroup(left, right, workspace.exact, workspace.columns, [&](int64_t begin) {
      SumColumns(plane, x0, channels, workspace.columns, workspace.sides, to + (begin - left) * channels, out_stride);
    });
  };
  const auto sum_rows = [&](const Plane& plane, uint8_t* to) {
    rows.ForEachGroup(top, bottom, workspace.exact, workspace.rows,
                      [&](int64_t begin) { SumRows(plane, y0, workspace.rows, to + (begin - top) * plane.row_bytes); });
  };

  Tensor<uint8_t>& between = workspace.between;
  uint8_t* out = workspace.resized.pixels.data();
  if (horizontal && vertical && VerticalFirst(image, region)) {
    between.Reuse({region.height, in.row_bytes});
    sum_rows(in, between.data());
    sum_columns({between.data(), in.row_bytes, region.height, in.row_bytes}, out);
  } else if (horizontal && vertical) {
    between.Reuse({in.rows, out_stride});
    sum_columns(in, between.data());
    sum_rows({between.data(), out_stride, in.rows, out_stride}, out);
  } else if (horizontal) {
    sum_columns(in, out);
  } else if (vertical) {
    sum_rows(in, out);
  } else {
    for (int64_t y = 0; y < in.rows; ++y) std::copy_n(in.data + y * stride, out_stride, out + y * out_stride);
  }
}

}  // namespace

Image& ResizeRegion(const Image& image, const Region& region, Filter filter, Workspace& workspace) {
  Require(region.full_height > 0 && region.full_width > 0, "resize: to {} x {} pixels", region.full_width,
          region.full_height);
  Require(image.pixels.size() > 0 && image.channels() >= 1 && image.channels() <= 4, "resize: an image of shape {}",
          image.pixels.shape());
  Image& resized = workspace.resized;
  resized.pixels.Reuse({region.height, region.width, image.channels()});
  const Kernel kernel = FilterKernel(filter);
  const bool same_size = region.full_height == image.height() && region.full_width == image.width();
  if (filter == Filter::kNearest) {
    Nearest(image, region, workspace);
  } else if (image.channels() % 2 != 0 || same_size) {
    Resample(image, region, kernel, workspace);
  } else {
    Image& premultiplied = workspace.premultiplied;
    premultiplied.pixels.Reuse(image.pixels.shape());
    std::copy_n(image.pixels.data(), image.pixels.size(), premultiplied.pixels.data());
    Premultiply(premultiplied, /*undo=*/false);
    Resample(premultiplied, region, kernel, workspace);
    Premultiply(resized, /*undo=*/true);
  }
  return resized;
}

Image Resize(const Image& image, int64_t height, int64_t width, Filter filter) {
  Workspace workspace;
  return std::move(Resize(image, height, width, filter, workspace));
}

Image& Resize(const Image& image, int64_t height, int64_t width, Filter filter, Workspace& workspace) {
  return ResizeRegion(image, {height, width, 0, 0, height, width}, filter, workspace);
}

}  // namespace qkv::image
