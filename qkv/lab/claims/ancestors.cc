// C12 to C14: smoothing, search, dictionaries.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "qkv/lab/claims/associative_memory.h"
#include "qkv/lab/claims/replay.h"
#include "qkv/report/text.h"

namespace qkv::lab::internal {
namespace {

constexpr int64_t kPoints = 96;
constexpr double kNoise = .18;

// A wave with a step in the middle.
Matrix Clean() {
  Matrix signal({kPoints, 1});
  for (int64_t i = 0; i < kPoints; ++i) {
    const double t = static_cast<double>(i) / kPoints;
    signal[i] = .35 * std::sin(4 * std::numbers::pi * t) + (t > .5 ? .7 : -.3);
  }
  return signal;
}

Matrix Noisy(const Matrix& signal, Rng& rng) {
  Matrix noisy = signal.Clone();
  for (double& x : noisy.span()) x += kNoise * rng.Normal();
  return noisy;
}

double RootMeanSquare(const Matrix& a, const Matrix& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum / static_cast<double>(a.size()));
}

report::Series MakeSeries(std::string name, const Matrix& values, bool points = false, bool dashed = false) {
  report::Series series{.name = std::move(name), .marks = points, .joined = !points, .dashed = dashed};
  for (int64_t i = 0; i < values.size(); ++i) series.samples.push_back({static_cast<double>(i), values[i]});
  return series;
}

report::Heatmap MakeHeatmap(const Matrix& image, int64_t side, std::string title) {
  return {.heading = {std::move(title)},
          .row_count = side,
          .column_count = side,
          .values = {image.span().begin(), image.span().end()},
          .low = 0,
          .high = 1,
          .value_name = "grey level",
          .cell = 9};
}

// Features of each point: its position, and the values around it.
Matrix Features(const Matrix& signal, double position_weight, double value_weight) {
  constexpr int64_t kReach = 2;
  Matrix features({kPoints, 2 * kReach + 2});
  for (int64_t i = 0; i < kPoints; ++i) {
    for (int64_t r = -kReach; r <= kReach; ++r) {
      const int64_t at = std::clamp<int64_t>(i + r, 0, kPoints - 1);
      features[i * features.dim(1) + r + kReach] = value_weight * signal[at];
    }
    features[i * features.dim(1) + 2 * kReach + 1] = position_weight * static_cast<double>(i);
  }
  return features;
}

}  // namespace

Result ReplaySmoothing(const Bench& bench) {
  Rng rng(bench.seed());
  constexpr double kBandwidth = 2;
  const Matrix clean = Clean(), noisy = Noisy(clean, rng);
  Matrix smooth({kPoints, 1}), out({kPoints, 1}), other({kPoints, 1});
  Matrix weights({kPoints, kPoints}), again({kPoints, kPoints});
  GaussianSmooth<double>(noisy, kBandwidth, smooth);
  const Matrix positions = GridPositions<double>({kPoints});
  const auto memory = SoftDictionary<double>(kBandwidth * kBandwidth);
  Recall<double>(memory, positions, positions, noisy, out, weights);
  Recall<double>(memory, positions, positions, clean, other, again);
  // The ratio of two weights of a row depends only on their distances.
  double ratio = 0, sums = 0;
  for (int64_t i = 0; i < kPoints; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < kPoints; ++j) sum += weights[i * kPoints + j];
    sums = std::max(sums, std::abs(sum - 1));
    for (int64_t d = 1; d <= 6 && i + d < kPoints; ++d) {
      const double wanted = std::exp(-static_cast<double>(d * d) / (2 * kBandwidth * kBandwidth));
      ratio = std::max(ratio, std::abs(weights[i * kPoints + i + d] / weights[i * kPoints + i] - wanted));
    }
  }
  constexpr int64_t kSide = 24;
  Matrix picture({kSide, kSide, 1}), smoothed({kSide, kSide, 1}), sharp({kSide, kSide, 1});
  for (int64_t i = 0; i < picture.size(); ++i) {
    const double y = static_cast<double>(i / kSide) - 11.5, x = static_cast<double>(i % kSide) - 11.5;
    sharp[i] = std::hypot(x, y) < 8 && std::hypot(x, y) > 4 ? .85 : .15;
    picture[i] = sharp[i] + kNoise * rng.Normal();
  }
  GaussianSmooth<double>(picture, 1, smoothed);
  report::LineChart chart{.heading = {"Gaussian smoothing", "A noisy signal with a jump, and its Gaussian mean"},
                          .x = {.name = "position"},
                          .y = {.name = "value"},
                          .series = {MakeSeries("noisy", noisy, true), MakeSeries("smoothed, h = 2", smooth),
                                     MakeSeries("the truth", clean, false, true)}};
  return {
      .title = "Gaussian smoothing",
      .claim = "Each value becomes a weighted mean of its neighbours, by weights that depend on distance alone.",
      .run = fmt::format("a signal of {} points with noise and an image of {}×{}, smoothed with bandwidths 2 and 1",
                         kPoints, kSide, kSide),
      .reason =
          "Its weights are exp(−d²/2h²) over their sum: known before any value is seen, and the same for every "
          "signal. It takes away noise, and every edge with it.",
      .checks = {{"weights against exp(−d²/2h²), max difference of ratios", Relation::kAtMost, 0, ratio, 1e-12},
                 {"row sums, max difference from 1", Relation::kAtMost, 0, sums, Rounding(1, kPoints, 1)},
                 {"weights of another signal, max difference", Relation::kEquals, 0, MaxDifference(weights, again)},
                 {"GaussianSmooth against the dictionary of positions", Relation::kAtMost, 0,
                  MaxDifference(smooth, out), Rounding(2, kPoints, 2)},
                 {"error of the noisy signal", Relation::kObserved, kNoise, RootMeanSquare(noisy, clean)},
                 {"error of the smoothed signal", Relation::kObserved, kNan, RootMeanSquare(smooth, clean)},
                 {"error of the noisy image", Relation::kObserved, kNoise, RootMeanSquare(picture, sharp)},
                 {"error of the smoothed image", Relation::kObserved, kNan, RootMeanSquare(smoothed, sharp)}},
      .pictures = {{chart, "The noise goes, and the jump becomes a slope."},
                   {MakeHeatmap(picture, kSide, "A noisy ring"), ""},
                   {MakeHeatmap(smoothed, kSide, "Smoothed, h = 1"), "The same in two dimensions."}},
  };
}

Result ReplaySearch(const Bench& bench) {
  Rng rng(bench.seed());
  constexpr int64_t N = 24, E = 16;
  const double h2 = std::sqrt(static_cast<double>(E));
  const Matrix q = Normal({N, E}, rng), k = Normal({N, E}, rng), v = Normal({N, E}, rng);
  Matrix unit = k.Clone(), norms({N, 1});
  for (int64_t j = 0; j < N; ++j) {
    double sum = 0;
    for (int64_t e = 0; e < E; ++e) sum += k[j * E + e] * k[j * E + e];
    norms[j] = sum;
    for (int64_t e = 0; e < E; ++e) unit[j * E + e] *= 2 / std::sqrt(sum);
  }
  const auto weights = [&](const Memory<double>& memory, const Matrix& queries, const Matrix& keys) {
    Matrix out({N, E}), w({N, N});
    Recall<double>(memory, queries, keys, v, out, w);
    return w;
  };
  const Matrix gaussian = weights(SoftDictionary<double>(h2), q, k), dots = weights(ScaledDotProduct<double>(E), q, k);
  const double equal =
      MaxDifference(weights(SoftDictionary<double>(h2), q, unit), weights(ScaledDotProduct<double>(E), q, unit));
  // Attention is the Gaussian mean with an additional weight exp(‖k_j‖²/2h²).
  Matrix weighed = gaussian.Clone();
  for (int64_t i = 0; i < N; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < N; ++j) sum += weighed[i * N + j] *= std::exp(norms[j] / (2 * h2));
    for (int64_t j = 0; j < N; ++j) weighed[i * N + j] /= sum;
  }

  const Matrix clean = Clean(), noisy = Noisy(clean, rng);
  Matrix smooth({kPoints, 1}), searched({kPoints, 1});
  GaussianSmooth<double>(noisy, 3., smooth);
  const Matrix features = Features(noisy, .25, 1.5);
  Recall<double>(SoftDictionary<double>(1), features, features, noisy, searched);
  report::LineChart chart{.heading = {"Weights by place, weights by search",
                                      "The same signal, smoothed by position and "
                                      "by likeness of what stands around"},
                          .x = {.name = "position"},
                          .y = {.name = "value"},
                          .series = {MakeSeries("by distance, h = 3", smooth), MakeSeries("by search", searched),
                                     MakeSeries("the truth", clean, false, true)}};
  return {
      .title = "Attention finds its weights by search",
      .claim = "Attention is the same weighted mean, with weights found by comparing a query with keys.",
      .run = fmt::format("Gaussian and dot-product weights of {} random queries and keys of width {}; the noisy signal "
                         "once more, smoothed by what stands around each point instead of by where it stands",
                         N, E),
      .reason =
          "For keys of one length and h² = √E both are the same formula, since q·k = −½‖q−k‖² + ½‖q‖² + ½‖k‖² and "
          "the softmax does not see ‖q‖². Otherwise attention also prefers long keys, by exp(‖k‖²/2h²).",
      .checks = {{"Gaussian against attention, keys of one length", Relation::kAtMost, 0, equal, Rounding(4, E, 20)},
                 {"Gaussian times exp(‖k‖²/2h²) against attention", Relation::kAtMost, 0, MaxDifference(weighed, dots),
                  Rounding(8, E + N, 20)},
                 {"Gaussian against attention, keys of any length", Relation::kAtLeast, .01,
                  MaxDifference(gaussian, dots)},
                 {"error by search / by distance", Relation::kAtMost, 1,
                  RootMeanSquare(searched, clean) / RootMeanSquare(smooth, clean)},
                 {"error of the signal, by distance", Relation::kObserved, kNan, RootMeanSquare(smooth, clean)},
                 {"error of the signal, by search", Relation::kObserved, kNan, RootMeanSquare(searched, clean)}},
      .pictures = {{chart, "Search keeps the jump: points beyond it do not look alike."}},
  };
}

Result ReplayDictionary(const Bench& bench) {
  Rng rng(bench.seed());
  constexpr int64_t N = 12, E = 8;
  const Matrix keys = Normal({N, E}, rng), values = Uniform({N, 1}, rng);
  Matrix hard({N, 1}), soft({N, 1}), nearest({N, 1});
  Recall<double>(HardDictionary<double>(), keys, keys, values, hard);  // queries are stored keys
  double gap = INFINITY;  // between the second-best similarity and the best
  for (int64_t i = 0; i < N; ++i) {
    for (int64_t j = 0; j < N; ++j) {
      if (i != j) gap = std::min(gap, -Nearness<double>(keys.view().row(i), keys.view().row(j), E));
    }
  }
  Recall<double>(NearestKey<double>(), keys, keys, values, nearest);
  report::LineChart chart{.heading = {"A soft dictionary becomes a hard one",
                                      "Greatest difference of the soft answer from the hard one, by temperature"},
                          .x = {.name = "temperature", .log = true},
                          .y = {.name = "greatest difference of an answer", .log = true},
                          .series = {{.name = "soft dictionary"}, {.name = "bound (N−1)·exp(−gap/τ)", .dashed = true}}};
  double last = 0, bound = 0, beyond = -INFINITY;
  for (double temperature = 100; temperature > gap / 40; temperature *= .7) {
    Recall<double>(SoftDictionary<double>(temperature), keys, keys, values, soft);
    last = MaxDifference(soft, hard);
    bound = (N - 1) * std::exp(-gap / temperature);
    beyond = std::max(beyond, last - std::min(bound, 1.0) - Rounding(2, N, 1));
    chart.series[0].samples.push_back({temperature, last});
    chart.series[1].samples.push_back({temperature, std::min(bound, 1.0)});
  }
  // Ties: a query between two keys gets the mean of their values.
  Matrix pair({2, 1}), pair_values({2, 1}), between({1, 1}), answer({1, 1}), missing({1, 1});
  pair[0] = -1, pair[1] = 1, pair_values[0] = 3, pair_values[1] = 5;
  Recall<double>(NearestKey<double>(), between, pair, pair_values, answer);
  Recall<double>(HardDictionary<double>(), between, pair, pair_values, missing);
  return {
      .title = "A soft dictionary",
      .claim = "A dictionary is hard matching; attention is a soft one.",
      .run = fmt::format("{} random keys of width {} asked for themselves by a hard dictionary and by soft ones of "
                         "falling temperature; a query half way between two keys",
                         N, E),
      .reason =
          "As the temperature falls, all weight goes to the most similar key, as fast as exp(−gap/τ): the hard "
          "dictionary is the limit. Keys as similar as the best share the weight; a hard dictionary that does "
          "not hold a query has no answer, a soft one always has.",
      .checks = {{"difference from the hard one, lowest temperature", Relation::kAtMost, bound, last,
                  Rounding(2, N, 1)},
                 {"difference beyond the bound, any temperature", Relation::kAtMost, 0, beyond},
                 {"nearest key against hard dictionary", Relation::kEquals, 0, MaxDifference(nearest, hard)},
                 {"answer between the values 3 and 5", Relation::kEquals, 4, answer[0]},
                 {"answer of a hard dictionary that does not hold it", Relation::kEquals, 0, missing[0]}},
      .pictures = {{chart, "On both sides of the gap between the best and the second best key."}},
  };
}

}  // namespace qkv::lab::internal
