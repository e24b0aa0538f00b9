#include "qkv/nn/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <type_traits>
#include <utility>

#include "qkv/core/parallel.h"
#include "qkv/nn/ranges.h"
#include "qkv/simd/rows/rotary.h"

namespace qkv::nn {

namespace {

// [axes, P]: factor · base^(−axes · 2i / E).
Tensor<double> Frequencies(int64_t axes, int64_t E, double base, double factor) {
  Require(E > 0 && E % (2 * axes) == 0 && base > 0,
          "rotary positions: expected a multiple of {} features and a positive base, got {} features and {}", 2 * axes,
          E, base);
  Tensor<double> frequencies({axes, E / (2 * axes)});
  for (int64_t a = 0; a < axes; ++a) {
    for (int64_t i = 0; i < frequencies.dim(1); ++i) {
      const double exponent = -static_cast<double>(2 * axes * i) / static_cast<double>(E);
      *frequencies.view().at(a, i) = factor * std::pow(base, exponent);
    }
  }
  return frequencies;
}

// [tokens, 2]: (row(r), column(c)) of each patch; coordinates of prefix tokens are 0.
template <class Row, class Column>
Tensor<double> GridCoordinates(const TokenGrid& grid, Row row, Column column) {
  Require(grid.prefix >= 0 && grid.height > 0 && grid.width > 0,
          "rotary positions: expected a grid of patches, got {} x {} behind {} tokens", grid.height, grid.width,
          grid.prefix);
  Tensor<double> coordinates({grid.tokens(), 2});
  for (int64_t t = 0; t < grid.height * grid.width; ++t) {
    double* at = coordinates.view().at(grid.prefix + t);
    at[0] = row(static_cast<double>(t / grid.width)), at[1] = column(static_cast<double>(t % grid.width));
  }
  return coordinates;
}

}  // namespace

RotaryAngles SequenceAngles(int64_t length, int64_t E, double base, const RotaryScaling& scaling) {
  Require(length > 0, "rotary positions: expected a length of at least 1, got {}", length);
  Require(scaling.factor > 0 && scaling.low < scaling.high && scaling.trained >= 0,
          "rotary positions: expected a positive factor and low < high, got {}, {} and {}", scaling.factor, scaling.low,
          scaling.high);
  RotaryAngles angles{Tensor<double>({length, 1}), Frequencies(1, E, base, 1)};
  for (double& frequency : angles.frequencies.span()) {
    double kept = 0;  // share of the frequency as it is
    if (scaling.trained > 0) {
      const double turns = static_cast<double>(scaling.trained) * frequency / (2 * std::numbers::pi);
      kept = std::clamp((turns - scaling.low) / (scaling.high - scaling.low), 0.0, 1.0);
    }
    frequency = (1 - kept) * frequency / scaling.factor + kept * frequency;
  }
  for (int64_t p = 0; p < length; ++p) angles.coordinates[p] = static_cast<double>(p);
  return angles;
}

RotaryAngles PatchAngles(const TokenGrid& grid, int64_t E, const PatchCoordinates& patches) {
  const auto scale = [](int64_t trained, int64_t size) {
    return trained > 0 ? static_cast<double>(trained) / static_cast<double>(size) : 1;
  };
  const double height = scale(patches.trained_height, grid.height), width = scale(patches.trained_width, grid.width);
  RotaryAngles angles{GridCoordinates(
                          grid, [&](double row) { return (row + patches.offset) * height; },
                          [&](double column) { return (column + patches.offset) * width; }),
                      Frequencies(2, E, patches.base, 1)};
  for (int64_t t = 0; t < grid.tokens() && patches.columns_first; ++t) {
    std::swap(angles.coordinates[2 * t], angles.coordinates[2 * t + 1]);
  }
  return angles;
}

RotaryAngles NormalisedAngles(const TokenGrid& grid, int64_t E, double base) {
  const auto centre = [](int64_t size) {
    return [n = static_cast<double>(size)](double place) { return 2 * (place + .5) / n - 1; };
  };
  return {GridCoordinates(grid, centre(grid.height), centre(grid.width)),
          Frequencies(2, E, base, 2 * std::numbers::pi)};
}

Tensor<double> PatchIndices(const TokenGrid& grid, bool columns_first) {
  const auto itself = [](double place) { return place; };
  Tensor<double> coordinates = GridCoordinates(grid, itself, itself);
  for (int64_t t = 0; t < grid.tokens() && columns_first; ++t) std::swap(coordinates[2 * t], coordinates[2 * t + 1]);
  return coordinates;
}

std::vector<int64_t> HalfSplitToNeighbours(int64_t E) {
  Require(E > 0 && E % 2 == 0, "rotary positions: expected an even number of features, got {}", E);
  std::vector<int64_t> from(static_cast<size_t>(E));
  for (int64_t f = 0; f < E; ++f) from[static_cast<size_t>(f)] = f / 2 + f % 2 * (E / 2);
  return from;
}

RotaryTable::RotaryTable(const RotaryAngles& angles) {
  const Tensor<double>& coordinates = angles.coordinates;  // no structured bindings: clang 14 does not capture them
  const Tensor<double>& frequencies = angles.frequencies;
  Require(coordinates.rank() == 2 && frequencies.rank() == 2 && coordinates.dim(1) == frequencies.dim(0) &&
              coordinates.size() > 0 && frequencies.size() > 0,
          "rotary positions: coordinates {} [tokens, axes] do not fit frequencies {} [axes, pairs]",
          coordinates.shape(), frequencies.shape());
  const int64_t axes = frequencies.dim(0), P = frequencies.dim(1);
  Fill({1, coordinates.dim(0), 2, 2 * axes * P},
       [&](int64_t, int64_t t, int64_t pair) { return coordinates[t * axes + pair / P] * frequencies[pair]; });
}

RotaryTable::RotaryTable(const MixedAngles& angles) {
  const Tensor<double>& coordinates = angles.coordinates;  // no structured bindings: clang 14 does not capture them
  const Tensor<double>& frequencies = angles.frequencies;
  Require(coordinates.rank() == 2 && frequencies.rank() == 3 && coordinates.dim(1) == frequencies.dim(0) &&
              coordinates.size() > 0 && frequencies.size() > 0,
          "rotary positions: coordinates {} [tokens, axes] do not fit frequencies {} [axes, heads, pairs]",
          coordinates.shape(), frequencies.shape());
  const int64_t axes = frequencies.dim(0), H = frequencies.dim(1), P = frequencies.dim(2);
  Fill({H, coordinates.dim(0), 2, 2 * P}, [&](int64_t h, int64_t t, int64_t pair) {
    double sum = 0;
    for (int64_t a = 0; a < axes; ++a) sum += coordinates[t * axes + a] * frequencies[(a * H + h) * P + pair];
    return sum;
  });
}

template <typename Angle>
void RotaryTable::Fill(const Shape& shape, Angle angle) {
  exact_ = Tensor<double>::Uninitialised(shape), single_ = Tensor<float>::Uninitialised(shape);
  for (int64_t h = 0; h < heads(); ++h) {
    for (int64_t t = 0; t < length(); ++t) {
      double *cosines = exact_.view().at(h, t, 0), *sines = exact_.view().at(h, t, 1);
      for (int64_t pair = 0; pair < width() / 2; ++pair) {
        const double radians = angle(h, t, pair);
        const int64_t e = 2 * pair;
        cosines[e] = cosines[e + 1] = std::cos(radians);
        sines[e + 1] = std::sin(radians), sines[e] = -sines[e + 1];
      }
    }
  }
  std::copy_n(exact_.data(), exact_.size(), single_.data());
}

template <typename T>
View<const T> RotaryTable::table(int64_t head) const {
  if constexpr (std::is_same_v<T, float>) {
    return single_.view()[head];
  } else {
    return exact_.view()[head];
  }
}

template <typename T>
void RotateRows(View<const T> x, int64_t N, const RotaryTable& table, int64_t first, RotaryDirection direction,
                View<T> y) {
  const int64_t E = table.width();
  Require(x.shape() == y.shape() && x.rank() == 2 && x.dim(1) % E == 0 && N > 0 && x.dim(0) % N == 0 && first >= 0 &&
              first + N <= table.length() && table.heads() == 1,
          "rotary positions: {} and {} do not fit {} features at places {} to {} of {}, in {} tables", x.shape(),
          y.shape(), E, first, first + N - 1, table.length(), table.heads());
  ForRowRanges(x.dim(0), x.dim(1), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin, next = begin; row < end; row = next) {
      next = std::min(end, (row / N + 1) * N);  // ends with the current sequence
      simd::RotatePairs<T>({x.row(row), x.stride(0), table.table<T>().at(first + row % N), next - row, x.dim(1) / E, E,
                            y.row(row), y.stride(0)},
                           direction == RotaryDirection::kInverse);
    }
  });
}

template <typename T>
void RotateHeads(View<const T> x, const RotaryTable& table, int64_t first, View<T> y) {
  const int64_t E = table.width(), H = x.dim(1), N = x.dim(2);
  const bool alike = table.heads() == 1;
  Require(x.shape() == y.shape() && x.rank() == 4 && x.dim(3) == E && first >= 0 && first + N <= table.length() &&
              (alike || table.heads() == H),
          "rotary positions: {} and {} do not fit {} features at places {} to {} of {}, in {} tables", x.shape(),
          y.shape(), E, first, first + N - 1, table.length(), table.heads());
  const int64_t heads_a_task = std::max<int64_t>(1, kElementsPerTask / (N * E));
  ParallelFor(x.dim(0) * H, heads_a_task, [&](int64_t begin, int64_t end) {
    for (int64_t head = begin; head < end; ++head) {
      simd::RotatePairs<T>({x.at(head / H, head % H), x.stride(2), table.table<T>(alike ? 0 : head % H).at(first), N, 1,
                            E, y.at(head / H, head % H), y.stride(2)},
                           false);
    }
  });
}

template View<const float> RotaryTable::table(int64_t) const;
template View<const double> RotaryTable::table(int64_t) const;
template void RotateRows(View<const float>, int64_t, const RotaryTable&, int64_t, RotaryDirection, View<float>);
template void RotateRows(View<const double>, int64_t, const RotaryTable&, int64_t, RotaryDirection, View<double>);
template void RotateHeads(View<const float>, const RotaryTable&, int64_t, View<float>);
template void RotateHeads(View<const double>, const RotaryTable&, int64_t, View<double>);

}  // namespace qkv::nn
