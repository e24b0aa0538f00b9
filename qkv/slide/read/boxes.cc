#include "qkv/slide/read/boxes.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "qkv/core/work.h"

namespace qkv::slide {

void ReduceByFactor(const image::Image& in, int64_t factor, uint8_t* out, int64_t out_stride) {
  const int64_t height = in.height(), width = in.width();
  std::vector<uint32_t> sums(static_cast<size_t>((width + factor - 1) / factor * 3));
  for (int64_t top = 0; top < height; top += factor, out += out_stride) {
    std::ranges::fill(sums, 0u);
    const int64_t rows = std::min(factor, height - top);
    for (int64_t y = top; y < top + rows; ++y) {
      Spend(width);
      const uint8_t* pixel = in.pixels.view().at(y);
      uint32_t* sum = sums.data();
      for (int64_t left = 0; left < width; left += factor, sum += 3) {
        const uint8_t* const end = pixel + 3 * std::min(factor, width - left);
        for (; pixel != end; pixel += 3) {
          sum[0] += pixel[0];
          sum[1] += pixel[1];
          sum[2] += pixel[2];
        }
      }
    }
    for (int64_t i = 0; i < std::ssize(sums); ++i) {
      const auto count = static_cast<uint32_t>(rows * std::min(factor, width - i / 3 * factor));
      out[i] = static_cast<uint8_t>((sums[static_cast<size_t>(i)] + count / 2) / count);
    }
  }
}

namespace {

/// The part of input i that [begin, end) covers.
float CoveredPart(int64_t i, double begin, double end) {
  return static_cast<float>(std::min(end, static_cast<double>(i + 1)) - std::max(begin, static_cast<double>(i)));
}

int64_t PastInput(double end) { return static_cast<int64_t>(std::ceil(end)); }

}  // namespace

void ReduceToBoxes(const image::Image& in, int64_t x0, int64_t y0, const BoxAxis& columns, const BoxAxis& rows,
                   int64_t left, int64_t top, int64_t width, int64_t height, uint8_t* out, int64_t out_stride) {
  const int64_t row_samples = in.width() * 3;
  std::vector<float> band(static_cast<size_t>(row_samples));
  for (int64_t o = 0; o < height; ++o, out += out_stride) {
    const double begin = rows.begin(top + o), end = rows.begin(top + o + 1);
    std::ranges::fill(band, 0.0f);
    const int64_t last = std::min(PastInput(end), y0 + in.height());
    for (int64_t y = static_cast<int64_t>(begin); y < last; ++y) {
      Spend(in.width());
      const float weight = CoveredPart(y, begin, end);
      const uint8_t* pixel = in.pixels.view().at(y - y0);
      for (int64_t i = 0; i < row_samples; ++i) band[static_cast<size_t>(i)] += weight * pixel[i];
    }
    for (int64_t p = 0; p < width; ++p) {
      const double from = columns.begin(left + p), to = columns.begin(left + p + 1);
      float sum[3] = {0, 0, 0};
      const int64_t past = std::min(PastInput(to), x0 + in.width());
      for (int64_t x = static_cast<int64_t>(from); x < past; ++x) {
        const float weight = CoveredPart(x, from, to);
        for (int64_t c = 0; c < 3; ++c) sum[c] += weight * band[static_cast<size_t>(3 * (x - x0) + c)];
      }
      const double area = (to - from) * (end - begin);
      for (int64_t c = 0; c < 3; ++c)
        out[3 * p + c] = static_cast<uint8_t>(std::clamp<int64_t>(std::llround(sum[c] / area), 0, 255));
    }
  }
}

}  // namespace qkv::slide
