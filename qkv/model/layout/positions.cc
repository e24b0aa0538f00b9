#include "qkv/model/layout/positions.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace qkv::model {
namespace {

// One output position along an axis: the inputs that it mixes, and their weights.
struct Mix {
  std::vector<std::pair<int64_t, double>> terms;
};

// Keys' cubic convolution kernel (1981).
double Cubic(double x, double a) {
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return a * (((x - 5) * x + 8) * x - 4);
  return 0;
}

// torch without antialias: a = −0.75, four taps, indices clamped to the border.
Mix PlainCubic(int64_t out, int64_t from, int64_t to) {
  const double source = (static_cast<double>(out) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5;
  const double first = std::floor(source);
  Mix mix;
  for (int tap = -1; tap <= 2; ++tap) {
    const auto index = std::clamp<int64_t>(static_cast<int64_t>(first) + tap, 0, from - 1);
    mix.terms.emplace_back(index, Cubic(source - first - tap, -0.75));
  }
  return mix;
}

// torch with antialias, like Pillow: a = −0.5, the kernel widened when shrinking, taps beyond the border dropped.
Mix AntialiasedCubic(int64_t out, int64_t from, int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), widen = std::max(scale, 1.0);
  const double support = 2 * widen, center = scale * (static_cast<double>(out) + 0.5);
  const auto begin = std::max<int64_t>(0, static_cast<int64_t>(center - support + 0.5));
  const auto end = std::min<int64_t>(from, static_cast<int64_t>(center + support + 0.5));
  Mix mix;
  double total = 0;
  for (int64_t i = begin; i < end; ++i) {
    mix.terms.emplace_back(i, Cubic((static_cast<double>(i) - center + 0.5) / widen, -0.5));
    total += mix.terms.back().second;
  }
  for (auto& [index, weight] : mix.terms) weight /= total;
  return mix;
}

Mix Linear(int64_t out, int64_t from, int64_t to, bool align_corners) {
  double source = (static_cast<double>(out) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5;
  if (align_corners) source = to > 1 ? static_cast<double>(out * (from - 1)) / static_cast<double>(to - 1) : 0;
  source = std::max(source, 0.0);
  const auto first = std::min<int64_t>(static_cast<int64_t>(source), from - 1);
  const double weight = source - static_cast<double>(first);
  return {{{first, 1 - weight}, {std::min(first + 1, from - 1), weight}}};
}

std::vector<Mix> AxisMixes(Interpolation interpolation, int64_t from, int64_t to) {
  std::vector<Mix> mixes;
  for (int64_t out = 0; out < to; ++out) {
    switch (interpolation) {
      case Interpolation::kBicubic:
        mixes.push_back(PlainCubic(out, from, to));
        break;
      case Interpolation::kBicubicAntialias:
        mixes.push_back(AntialiasedCubic(out, from, to));
        break;
      case Interpolation::kBilinear:
      case Interpolation::kBilinearAligned:
        mixes.push_back(Linear(out, from, to, interpolation == Interpolation::kBilinearAligned));
        break;
      case Interpolation::kNone:
        Fail("positions: this family's library does not interpolate them; give images of the trained size");
    }
  }
  return mixes;
}

}  // namespace

template <typename T>
void ResampleGrid(View<const T> from, int64_t from_height, int64_t from_width, Interpolation interpolation,
                  int64_t to_height, int64_t to_width, View<T> to) {
  const int64_t D = from.dim(1);
  Require(from.dim(0) == from_height * from_width && to.dim(0) == to_height * to_width && to.dim(1) == D,
          "positions: {} on a {}x{} grid cannot become {} on {}x{}", from.shape(), from_height, from_width, to.shape(),
          to_height, to_width);
  const std::vector<Mix> rows = AxisMixes(interpolation, from_height, to_height);
  const std::vector<Mix> columns = AxisMixes(interpolation, from_width, to_width);
  std::vector<double> sum(static_cast<size_t>(D));
  for (int64_t y = 0; y < to_height; ++y) {
    for (int64_t x = 0; x < to_width; ++x) {
      std::fill(sum.begin(), sum.end(), 0);
      for (const auto& [row, row_weight] : rows[static_cast<size_t>(y)].terms) {
        for (const auto& [column, column_weight] : columns[static_cast<size_t>(x)].terms) {
          const T* position = from.row(row * from_width + column);
          const double weight = row_weight * column_weight;
          for (int64_t d = 0; d < D; ++d) sum[static_cast<size_t>(d)] += weight * static_cast<double>(position[d]);
        }
      }
      std::transform(sum.begin(), sum.end(), to.row(y * to_width + x), [](double s) { return static_cast<T>(s); });
    }
  }
}

template <typename T>
void SinCosGrid(int64_t height, int64_t width, View<T> to) {
  const int64_t D = to.dim(1), quarter = D / 4;
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      T* position = to.row(y * width + x);
      for (int64_t i = 0; i < quarter; ++i) {
        const double omega = std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(quarter - 1));
        position[i] = static_cast<T>(std::sin(static_cast<double>(x) * omega));
        position[quarter + i] = static_cast<T>(std::cos(static_cast<double>(x) * omega));
        position[2 * quarter + i] = static_cast<T>(std::sin(static_cast<double>(y) * omega));
        position[3 * quarter + i] = static_cast<T>(std::cos(static_cast<double>(y) * omega));
      }
    }
  }
}

template <typename T>
void SinCosSequence(View<T> to, SequencePositions positions) {
  const int64_t D = to.dim(1);
  const bool halves = positions != SequencePositions::kSinusoidal;
  // The exponent of the frequency is −d over this.
  const auto range = static_cast<double>(positions == SequencePositions::kSinusoidalFairseq ? D - 2 : D);
  Require(D % 2 == 0, "sinusoidal positions: expected an even width, got {}", D);
  for (int64_t p = 0; p < to.dim(0); ++p) {
    for (int64_t d = 0; d < D; d += 2) {
      const double angle = static_cast<double>(p) * std::pow(10000.0, -static_cast<double>(d) / range);
      T* const sine = to.row(p) + (halves ? d / 2 : d);
      sine[0] = static_cast<T>(std::sin(angle)), sine[halves ? D / 2 : 1] = static_cast<T>(std::cos(angle));
    }
  }
}

template <typename T>
Tensor<T> ComputedPositions(const SequenceConfig& c) {
  if (!AreComputed(c.positions)) return {};
  auto positions = Tensor<T>::Uninitialised({c.position_offset + c.length, c.block.width});
  SinCosSequence<T>(positions, c.positions);
  return positions;
}

template <typename T>
Tensor<T> RelativeScores(const SequenceConfig& c, View<const T> table) {
  const int64_t H = table.dim(1);
  auto scores = Tensor<T>::Uninitialised({H, 2 * c.length - 1});
  for (int64_t distance = 1 - c.length; distance < c.length; ++distance) {
    const T* const row = table.row(RelativeBucket(c, distance));
    for (int64_t h = 0; h < H; ++h) scores.view().row(h)[distance + c.length - 1] = row[h];
  }
  return scores;
}

template void ResampleGrid(View<const float>, int64_t, int64_t, Interpolation, int64_t, int64_t, View<float>);
template void ResampleGrid(View<const double>, int64_t, int64_t, Interpolation, int64_t, int64_t, View<double>);
template void SinCosGrid(int64_t, int64_t, View<float>);
template void SinCosGrid(int64_t, int64_t, View<double>);
template void SinCosSequence(View<float>, SequencePositions);
template void SinCosSequence(View<double>, SequencePositions);
template Tensor<float> ComputedPositions(const SequenceConfig&);
template Tensor<double> ComputedPositions(const SequenceConfig&);
template Tensor<float> RelativeScores(const SequenceConfig&, View<const float>);
template Tensor<double> RelativeScores(const SequenceConfig&, View<const double>);

}  // namespace qkv::model
