#include "qkv/model/blocks/relative_bias.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/core/parallel.h"

namespace qkv::model {
namespace {

constexpr int64_t kOfClassToken = 3;

int64_t TableRows(int64_t height, int64_t width) { return (2 * height - 1) * (2 * width - 1) + kOfClassToken; }

// A resampled value along one axis: (1 − weight) · first + weight · second.
struct Between {
  int64_t first = 0, second = 0;
  double weight = 0;
};

// torch.nn.functional.interpolate, mode "bilinear"
std::vector<Between> Bilinear(int64_t from, int64_t to) {
  std::vector<Between> axis;
  for (int64_t out = 0; out < to; ++out) {
    const double center = (static_cast<double>(out) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5,
                 source = std::max(center, 0.0);
    const auto first = std::min(static_cast<int64_t>(source), from - 1);
    axis.push_back({first, std::min(first + 1, from - 1), source - static_cast<double>(first)});
  }
  return axis;
}

// timm (from BEiT's fine-tuning): the distances of the old offsets from 0 become 1, 1 + q, 1 + q + q², …, where the
// last is about the greatest new offset; 1.01 <= q <= 1.5. Values beyond the last are that of the last.
std::vector<Between> Geometric(int64_t from, int64_t to) {
  const int64_t half = from / 2, to_half = to / 2;
  double low = 1.01, high = 1.5, ratio = low;
  while (high - low > 1e-6) {
    ratio = (low + high) / 2;
    const double reached = (1 - std::pow(ratio, static_cast<double>(half))) / (1 - ratio);
    (reached > static_cast<double>(to_half) ? high : low) = ratio;
  }
  std::vector<double> at(static_cast<size_t>(from));  // of the old offsets, ascending
  double distance = 1;
  for (int64_t i = 0; i < half; ++i) {
    at[static_cast<size_t>(half + 1 + i)] = distance, at[static_cast<size_t>(half - 1 - i)] = -distance;
    distance += std::pow(ratio, static_cast<double>(i + 1));
  }
  std::vector<Between> axis;
  for (int64_t out = 0; out < to; ++out) {
    const double offset = std::clamp(static_cast<double>(out - to_half), at.front(), at.back());
    const int64_t second = std::ranges::lower_bound(at, offset) - at.begin(), first = std::max<int64_t>(second - 1, 0);
    const double left = at[static_cast<size_t>(first)], right = at[static_cast<size_t>(second)];
    axis.push_back({first, second, right > left ? (offset - left) / (right - left) : 0});
  }
  return axis;
}

}  // namespace

template <typename T>
void AddRelativeBiases(View<const T> stored, View<T> to) {
  const int64_t R = stored.dim(0), H = stored.dim(1), offsets = R - kOfClassToken;
  Require(to.shape() == Shape({H, R}), "relative biases: expected [{}, {}], got {}", H, R, to.shape());
  for (int64_t row = 0; row < R; ++row) {
    for (int64_t h = 0; h < H; ++h) *to.at(h, row < offsets ? offsets - 1 - row : row) += stored.row(row)[h];
  }
}

template <typename T>
void ResampleRelativeBiases(View<const T> from, int64_t from_height, int64_t from_width,
                            BiasInterpolation interpolation, int64_t to_height, int64_t to_width, View<T> to) {
  const int64_t R = TableRows(from_height, from_width), to_R = TableRows(to_height, to_width);
  Require(from.rank() == 3 && from.dense() && from.dim(2) == R && to.dense() &&
              to.shape() == Shape({from.dim(0), from.dim(1), to_R}),
          "relative biases: {} of {}x{} patches cannot become {} of {}x{}", from.shape(), from_height, from_width,
          to.shape(), to_height, to_width);
  const bool bilinear = interpolation == BiasInterpolation::kBilinear;
  const auto resample = bilinear ? Bilinear : Geometric;
  // transformers 5 takes the table of a grid that is not square for that of its transpose, at the trained size too.
  if (bilinear) std::swap(from_height, from_width);
  const std::vector<Between> rows = resample(2 * from_height - 1, 2 * to_height - 1),
                             columns = resample(2 * from_width - 1, 2 * to_width - 1);
  const int64_t old_columns = 2 * from_width - 1, H = from.dim(1);
  ParallelFor(from.dim(0) * H, 1, [&](int64_t begin, int64_t end) {
    for (int64_t table = begin; table < end; ++table) {
      const T* const old = from.at(table / H, table % H);
      T* out = to.at(table / H, table % H);
      for (const Between& y : rows) {
        const T *const upper = old + y.first * old_columns, *const lower = old + y.second * old_columns;
        for (const Between& x : columns) {
          const auto mix = [&](const T* row) {
            return (1 - x.weight) * static_cast<double>(row[x.first]) + x.weight * static_cast<double>(row[x.second]);
          };
          *out++ = static_cast<T>((1 - y.weight) * mix(upper) + y.weight * mix(lower));
        }
      }
      std::copy_n(old + R - kOfClassToken, kOfClassToken, out);
    }
  });
}

template <typename T>
void ExpandRelativeBiases(View<const T> table, int64_t height, int64_t width, View<T> to) {
  const int64_t H = table.dim(0), R = TableRows(height, width), N = 1 + height * width, rows = to.dim(2);
  Require(table.shape() == Shape({H, R}) && to.shape() == Shape({1, H, rows, N}) && rows <= N,
          "relative biases: {} of {}x{} patches cannot be expanded to {}", table.shape(), height, width, to.shape());
  ParallelFor(H * rows, 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t h = i / rows, query = i % rows;
      const T* const offsets = table.row(h);
      const T* const special = offsets + R - kOfClassToken;
      T* out = to.at(0, h, query);
      if (query == 0) {
        *out = special[2];
        std::fill_n(out + 1, N - 1, special[0]);
        continue;
      }
      *out++ = special[1];
      const int64_t row = (query - 1) / width, column = (query - 1) % width;
      const T* from = offsets + (height - 1 - row) * (2 * width - 1) + width - 1 - column;
      for (int64_t y = 0; y < height; ++y, from += 2 * width - 1) out = std::copy_n(from, width, out);
    }
  });
}

#define QKV_INSTANTIATE(T)                                                                                             \
  template void AddRelativeBiases(View<const T>, View<T>);                                                             \
  template void ResampleRelativeBiases(View<const T>, int64_t, int64_t, BiasInterpolation, int64_t, int64_t, View<T>); \
  template void ExpandRelativeBiases(View<const T>, int64_t, int64_t, View<T>);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::model
