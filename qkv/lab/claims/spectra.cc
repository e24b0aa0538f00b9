// C15 and C16: the spectra of projections, and the division by √E.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "qkv/algebra/fold.h"
#include "qkv/algebra/logits.h"
#include "qkv/algebra/spectrum.h"
#include "qkv/lab/claims/replay.h"
#include "qkv/report/text.h"

namespace qkv::lab::internal {
namespace {

// The weights of one role of all heads of a block, stacked: [H·E, D].
Matrix Joined(const Bench& bench, int64_t block, const algebra::Projection& (*role)(const TrainedHead&)) {
  std::vector<const Matrix*> parts;
  int64_t rows = 0;
  for (const TrainedHead& head : bench.trained()) {
    if (head.block != block) continue;
    parts.push_back(&role(head).weight);
    rows += parts.back()->dim(0);
  }
  Matrix joined({rows, parts[0]->dim(1)});
  int64_t at = 0;
  for (const Matrix* part : parts) {
    std::copy_n(part->data(), part->size(), joined.data() + at);
    at += part->size();
  }
  return joined;
}

struct Role {
  const char* name;
  const algebra::Projection& (*of)(const TrainedHead&);
};
constexpr Role kRoles[] = {
    {"W_Q", [](const TrainedHead& head) -> const algebra::Projection& { return head.pair.query; }},
    {"W_K", [](const TrainedHead& head) -> const algebra::Projection& { return head.pair.key; }},
    {"W_V", [](const TrainedHead& head) -> const algebra::Projection& { return head.value; }},
};

report::Series SpectrumSeries(std::string name, const std::vector<double>& values) {
  report::Series series{.name = std::move(name), .marks = false};
  for (size_t i = 0; i < values.size(); ++i) {
    series.samples.push_back({static_cast<double>(i + 1), values[i] / values[0]});
  }
  return series;
}

// Saturation of a softmax of scores q·k over kKeys keys: the greatest weight, and the trace of its Jacobian, Σ A_j (1 −
// A_j), which scales every gradient.
struct Saturation {
  double variance = 0, greatest = 0, gradient = 0;
};

constexpr int64_t kKeys = 64;

Saturation MeasureSaturation(int64_t E, double scale, int queries, uint64_t seed) {
  Rng rng(seed);
  Saturation result;
  std::vector<double> q(static_cast<size_t>(E)), s(kKeys);
  double sum = 0, squares = 0;
  for (int i = 0; i < queries; ++i) {
    for (double& x : q) x = rng.Normal();
    double most = -INFINITY, total = 0;
    for (double& score : s) {
      score = 0;
      for (const double x : q) score += x * rng.Normal();
      score *= scale;
      sum += score, squares += score * score, most = std::max(most, score);
    }
    for (double& score : s) total += score = std::exp(score - most);
    double gradient = 0;
    for (const double weight : s) gradient += weight / total * (1 - weight / total);
    result.greatest += 1 / total / queries, result.gradient += gradient / queries;
  }
  const double count = static_cast<double>(queries) * kKeys;
  result.variance = squares / count - (sum / count) * (sum / count);
  return result;
}

}  // namespace

Result ReplaySpectra(const Bench& bench) {
  const int64_t E = bench.trained()[0].pair.query.weight.dim(0), D = bench.model().config().block.width;
  double most_rank = 0;
  for (const TrainedHead& head : bench.trained()) {
    const auto values = algebra::SingularValues(head.pair.query.weight, head.pair.key.weight);
    most_rank = std::max(most_rank, static_cast<double>(algebra::NumericalRank(values, D)));
  }
  report::Table table{
      "How many directions pass: rank and effective rank, mean over blocks",
      {{"matrix", report::Align::kLeft}, {"shape", report::Align::kLeft}, {"rank"}, {"effective rank"}, {"of D"}},
      {}};
  const auto add = [&](std::string name, std::string shape, double rank, double effective) {
    table.rows.push_back({std::move(name), std::move(shape), report::Number(rank), report::Number(effective),
                          fmt::format("{:.0f}%", 100 * effective / static_cast<double>(D))});
  };
  report::LineChart chart{.heading = {fmt::format("What the projections of block 0 let through ({})", bench.name()),
                                      "Singular values relative to the greatest, of W_Q, W_K, W_V of all heads and of "
                                      "the mean QK circuit of a head"},
                          .x = {.name = "singular value"},
                          .y = {.name = "relative to the greatest", .log = true}};
  double joint_rank = 0, joint_effective = 0;
  const auto depth = static_cast<double>(bench.depth());
  for (const Role& role : kRoles) {
    double rank = 0, effective = 0, head_rank = 0, head_effective = 0;
    for (int64_t block = 0; block < bench.depth(); ++block) {
      // Normalised inputs sum to 0 over the features, so the direction 1 does not count.
      const Matrix joined = algebra::Centre({Joined(bench, block, role.of), {}}).weight;
      const auto values = algebra::SingularValues(joined);
      rank += static_cast<double>(algebra::NumericalRank(values, std::max(joined.dim(0), D))) / depth;
      effective += algebra::EffectiveRank(values) / depth;
      if (block == 0) chart.series.push_back(SpectrumSeries(role.name, values));
    }
    for (const TrainedHead& head : bench.trained()) {
      const auto values = algebra::SingularValues(role.of(head).weight);
      const auto count = static_cast<double>(bench.trained().size());
      head_rank += static_cast<double>(algebra::NumericalRank(values, D)) / count;
      head_effective += algebra::EffectiveRank(values) / count;
    }
    add(fmt::format("{}, all heads", role.name), fmt::format("{}×{}", bench.heads() * E, D), rank, effective);
    add(fmt::format("{}, a head", role.name), fmt::format("{}×{}", E, D), head_rank, head_effective);
    joint_rank = std::max(joint_rank, rank), joint_effective = std::max(joint_effective, effective);
  }
  double circuit = 0, circuit_rank = 0;
  std::vector<double> mean(static_cast<size_t>(std::min(E, D)));
  for (const TrainedHead& head : bench.trained()) {
    const auto values = algebra::SingularValues(head.pair.query.weight, head.pair.key.weight);
    circuit += algebra::EffectiveRank(values) / static_cast<double>(bench.trained().size());
    circuit_rank +=
        static_cast<double>(algebra::NumericalRank(values, D)) / static_cast<double>(bench.trained().size());
    for (size_t i = 0; i < mean.size() && head.block == 0; ++i) mean[i] += values[i];
  }
  add("QK circuit W_QᵀW_K, a head", fmt::format("{0}×{0}", D), circuit_rank, circuit);
  chart.series.push_back(SpectrumSeries("QK circuit, mean of heads", mean));
  return {
      .title = "Projections pass a part",
      .claim = "The projections let a limited part of a token's information into queries, keys and values.",
      .run =
          fmt::format("singular values of W_Q, W_K, W_V and of the QK circuits in all {} heads of {}, LayerNorm folded "
                      "in",
                      bench.trained().size(), bench.name()),
      .verdict = Verdict::kHoldsUnderConditions,
      .reason =
          "A head reads E of D directions, and fewer with any weight. All heads of a block together may read "
          "everything but the mean, which LayerNorm takes away: the limit is that of each head, not of the layer.",
      .checks = {{"rank of a QK circuit, greatest", Relation::kAtMost, static_cast<double>(std::min(E, D)), most_rank},
                 {"effective rank of a QK circuit, mean", Relation::kAtMost, static_cast<double>(std::min(E, D)),
                  circuit, 1e-9},
                 {"rank of a layer's W_Q, W_K or W_V, greatest mean", Relation::kAtMost,
                  static_cast<double>(std::min(D - 1, bench.heads() * E)), joint_rank, 1e-9},
                 {"effective rank of them, greatest mean", Relation::kObserved, kNan, joint_effective}},
      .tables = {table},
      .pictures = {{chart, "A head's QK circuit ends after E values; the layer's projections go on."}},
  };
}

Result ReplayVariance(const Bench& bench) {
  const int queries = bench.setup().quick ? 60 : 250;
  report::LineChart variance{
      .heading = {"Variance of the scores", "Variance of q·k with and without division by √E"},
      .x = {.name = "E", .log = true},
      .y = {.name = "variance", .log = true},
      .series = {{.name = "q·k"}, {.name = "q·k/√E"}, {.name = "E", .marks = false, .dashed = true}}};
  report::LineChart gradient{
      .heading = {"What the softmax lets through", "Trace of the softmax's derivative with and without division by √E"},
      .x = {.name = "E", .log = true},
      .y = {.name = "Σ A(1 − A), mean over queries", .low = 0, .high = 1},
      .series = {{.name = "without"},
                 {.name = "with 1/√E"},
                 {.name = "greatest weight, without", .dashed = true},
                 {.name = "greatest weight, with 1/√E", .dashed = true}}};
  Result result{
      .title = "Division by √E",
      .claim = "Dividing by √E reduces the variance of the scores before the softmax.",
      .run = fmt::format("{} queries and {} keys each of independent standard normal features, E from 4 to 4096; "
                         "then queries and keys of {}{}",
                         queries, kKeys, bench.name(), bench.reservation()),
      .reason =
          "A sum of E independent products of unit variance has variance E, so the division brings it to "
          "1 for every E. Without it the softmax takes one key and passes hardly any gradient. In a "
          "trained model entries are neither independent nor of unit variance: there the division sets "
          "where training starts, and training goes where it wants."};
  Saturation last, last_scaled;
  for (int64_t E = 4; E <= 4096; E *= 4) {
    const double scale = 1 / std::sqrt(static_cast<double>(E));
    const Saturation raw = MeasureSaturation(E, 1, queries, bench.seed() + static_cast<uint64_t>(E));
    const Saturation scaled = MeasureSaturation(E, scale, queries, bench.seed() + static_cast<uint64_t>(E));
    const auto e = static_cast<double>(E);
    variance.series[0].samples.push_back({e, raw.variance});
    variance.series[1].samples.push_back({e, scaled.variance});
    variance.series[2].samples.push_back({e, e});
    gradient.series[0].samples.push_back({e, raw.gradient}), gradient.series[1].samples.push_back({e, scaled.gradient});
    gradient.series[2].samples.push_back({e, raw.greatest}), gradient.series[3].samples.push_back({e, scaled.greatest});
    // Scores of one query share its norm ‖q‖², whose relative variance is 2/E: the mean over queries varies by 2/(E ·
    // queries). Squared normal scores add 2 per score. Tolerance: six standard deviations.
    const double deviation = std::sqrt((2 / e + 2.0 / kKeys * (1 + 2 / e)) / queries);
    result.checks.push_back(
        {fmt::format("variance of q·k, E = {}", E), Relation::kEquals, e, raw.variance, 6 * deviation * e});
    result.checks.push_back(
        {fmt::format("variance of q·k/√E, E = {}", E), Relation::kEquals, 1, scaled.variance, 6 * deviation});
    last = raw, last_scaled = scaled;
  }
  double trained = 0;
  for (const TrainedHead& head : bench.trained()) {
    const Matrix S = algebra::Logits(head.pair, *head.tokens, *head.tokens, head.scale);
    double sum = 0, squares = 0;
    for (const double x : S.span()) sum += x, squares += x * x;
    const auto n = static_cast<double>(S.size());
    trained += (squares / n - sum / n * (sum / n)) / static_cast<double>(bench.trained().size());
  }
  for (report::LineChart* chart : {&variance, &gradient}) {
    for (int e = 4; e <= 4096; e *= 4) chart->x.ticks.push_back({double(e), fmt::format("{}", e)});
  }
  result.checks.push_back({"greatest weight without division, E = 4096", Relation::kAtLeast, .9, last.greatest});
  result.checks.push_back({"gradient without division, E = 4096", Relation::kAtMost, .15, last.gradient});
  result.checks.push_back({"gradient with division, E = 4096", Relation::kAtLeast, .85, last_scaled.gradient});
  result.checks.push_back({"variance of trained scores, mean over heads", Relation::kObserved, 1, trained});
  result.pictures = {{variance, "Measured on its prediction."},
                     {gradient, "At 0 nothing is learned through the weights."}};
  return result;
}

}  // namespace qkv::lab::internal
