// C6 and C11: what training does to the projections, and to one matrix in place of two. The theory is replayed; the
// effect on accuracy comes from stored results of `qkv ablate`, which take hours.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "qkv/algebra/projection.h"
#include "qkv/core/arena.h"
#include "qkv/inspect/heads.h"
#include "qkv/lab/ablation_report.h"
#include "qkv/lab/claims/replay.h"
#include "qkv/nn/training/attention.h"

namespace qkv::lab::internal {
namespace {

constexpr const char* kSeparate = "separate";

// One attention layer, small enough for finite differences over every weight.
class SmallLayer {
 public:
  static constexpr int64_t kN = 6, kD = 8, kH = 2, kE = 3;

  explicit SmallLayer(Rng& rng)
      : x_(Normal({1, kN, kD}, rng)), dy_(Normal({kN, kD}, rng)), weights_(Normal({kSize}, rng, 0.5)) {}

  // <dy, y>
  double Loss() {
    Forward();
    double sum = 0;
    for (int64_t i = 0; i < y_.size(); ++i) sum += dy_[i] * y_[i];
    return sum;
  }
  Tensor<double> Gradient() {
    Forward();
    Tensor<double> gradient({kSize}), dx({1, kN, kD});
    nn::AttentionBackward<double>(kN, Parameters<const double>(weights_.data()), Settings(), cache_, dy_, dx.view(),
                                  Parameters<double>(gradient.data()), arena_);
    return gradient;
  }
  // Central differences; h balances h² of truncation error against 2⁻⁵² / h of rounding.
  Tensor<double> Differences() {
    constexpr double kStep = 1e-5;
    Tensor<double> differences({kSize});
    for (int64_t i = 0; i < kSize; ++i) {
      const double w = weights_[i];
      weights_[i] = w + kStep;
      const double above = Loss();
      weights_[i] = w - kStep;
      const double below = Loss();
      weights_[i] = w;
      differences[i] = (above - below) / (2 * kStep);
    }
    return differences;
  }

  static constexpr int64_t kHeads = kH * kE;                               // outputs of a projection
  static constexpr int64_t kBias = 3 * kHeads * kD;                        // offset of the biases of Q, K and V
  static constexpr int64_t kSize = kBias + 3 * kHeads + kD * kHeads + kD;  // including the output projection

 private:
  template <typename T>
  static nn::AttentionParameters<T> Parameters(T* p) {
    nn::AttentionParameters<T> parameters;
    parameters.query_key_value = {View<T>(p, {3 * kHeads, kD}), View<T>(p + kBias, {3 * kHeads})};
    T* const out = p + kBias + 3 * kHeads;
    parameters.projection = {View<T>(out, {kD, kHeads}), View<T>(out + kD * kHeads, {kD})};
    return parameters;
  }
  static nn::AttentionSettings Settings() { return {.config = {.heads = kH, .head_width = kE}}; }
  void Forward() {
    arena_.Reset();
    nn::AttentionForward<double>(x_, kN, Parameters<const double>(weights_.data()), Settings(), {}, y_.view(), cache_,
                                 arena_);
  }

  Matrix x_, dy_, weights_, y_ = Matrix({kN, kD});
  nn::AttentionCache<double> cache_;
  Arena arena_;
};

double Greatest(std::span<const double> values) {
  double greatest = 0;
  for (const double x : values) greatest = std::max(greatest, std::abs(x));
  return greatest;
}

View<const double> AsRow(const Tensor<double>& values) { return {values.data(), {1, values.size()}}; }

// a + factor b
Matrix Sum(const Matrix& a, const Matrix& b, double factor) {
  Matrix sum(a.shape());
  for (int64_t i = 0; i < a.size(); ++i) sum[i] = a[i] + factor * b[i];
  return sum;
}

// The outcome of a confidence interval of a difference of accuracies.
enum class Finding { kWorse, kOpen, kBetter, kCeiling };

// Mean accuracies from which on a task no longer tells arms apart.
constexpr double kCeilingAccuracy = 0.9995;

// Whether both arms solve the task.
bool AtCeiling(const AblationResults& results, const std::string& data, std::string_view arm, std::string_view other) {
  int at_ceiling = 0;
  for (const ArmSummary& summary : Summarise(results, data)) {
    const bool compared = summary.arm == arm || summary.arm == other;
    at_ceiling += compared && summary.top1.mean >= kCeilingAccuracy ? 1 : 0;
  }
  return at_ceiling == 2;
}

std::string_view Words(Finding finding) {
  switch (finding) {
    case Finding::kWorse:
      return "worse";
    case Finding::kBetter:
      return "better";
    case Finding::kOpen:
      return "left open";
    case Finding::kCeiling:
      return "both solve it, at 100 %";
  }
  return "";
}

Finding ClassifyDifference(const Interval& difference) {
  if (difference.mean + difference.half < 0) return Finding::kWorse;
  return difference.mean - difference.half > 0 ? Finding::kBetter : Finding::kOpen;
}

// The findings of all stored results about one arm against another.
struct Findings {
  int64_t worse = 0, open = 0, better = 0, ceiling = 0;
  std::string words;  // "On cifar10 shared − separate is +0.12 ± 0.42 points: left open. …"
  std::vector<Check> checks;

  bool any() const { return worse + open + better + ceiling > 0; }
};

// The claim is that an arm is worse. An interval that contains 0 refutes nothing.
Verdict ChooseVerdict(int64_t worse, int64_t better) {
  if (worse > 0) return Verdict::kHoldsUnderConditions;
  return better > 0 ? Verdict::kDoesNotHold : Verdict::kOpen;
}

Findings Compare(const Bench& bench, std::string_view arm, std::string_view other) {
  Findings findings;
  for (const AblationResults& results : bench.setup().ablations) {
    for (const std::string& data : results.Data()) {
      const Interval difference = Difference(results, data, arm, other);
      if (std::isnan(difference.mean)) continue;
      const Finding finding = AtCeiling(results, data, arm, other) ? Finding::kCeiling : ClassifyDifference(difference);
      ++(finding == Finding::kWorse    ? findings.worse
         : finding == Finding::kOpen   ? findings.open
         : finding == Finding::kBetter ? findings.better
                                       : findings.ceiling);
      findings.words +=
          fmt::format("On {} {} − {} is {} points: {}. ", data, arm, other, Percent(difference, true), Words(finding));
      findings.checks.push_back({fmt::format("{}: {} − {}, accuracy", data, arm, other), Relation::kObserved, kNan,
                                 100 * difference.mean, 0, "points"});
    }
  }
  return findings;
}

// All runs together: an arm at one learning rate may be stored beside others of its own.
AblationResults Pool(std::span<const AblationResults> all) {
  AblationResults pool;
  for (const AblationResults& results : all) {
    for (const std::string& arm : results.arms) {
      if (std::ranges::find(pool.arms, arm) == pool.arms.end()) pool.arms.push_back(arm);
    }
    pool.runs.insert(pool.runs.end(), results.runs.begin(), results.runs.end());
  }
  return pool;
}

// The most accurate of an arm's learning rates, and how many there are: `arm` itself and arms with lr=… behind it.
struct Rates {
  std::string best;
  int64_t count = 0;
};

Rates FindRates(const std::vector<ArmSummary>& summaries, std::string_view arm) {
  Rates rates;
  double greatest = -1;
  for (const ArmSummary& summary : summaries) {
    if (summary.arm != arm && !summary.arm.starts_with(fmt::format("{}:lr=", arm))) continue;
    ++rates.count;
    if (summary.top1.mean > greatest) greatest = summary.top1.mean, rates.best = summary.arm;
  }
  return rates;
}

// Two arms at the best learning rate of each, where both were trained at several.
std::string CompareAtBestRates(const Bench& bench, std::string_view arm, std::string_view other, Result* result) {
  const AblationResults pool = Pool(bench.setup().ablations);
  std::string words;
  for (const std::string& data : pool.Data()) {
    const std::vector<ArmSummary> summaries = Summarise(pool, data);
    const Rates own = FindRates(summaries, arm), others = FindRates(summaries, other);
    if (own.count < 2 || others.count < 2) continue;
    const Interval difference = Difference(pool, data, own.best, others.best);
    words += fmt::format("On {} at the best of {} learning rates for each, {} − {} is {} points: {}. ", data,
                         std::min(own.count, others.count), own.best, others.best, Percent(difference, true),
                         Words(ClassifyDifference(difference)));
    result->checks.push_back({fmt::format("{}: {} − {}, accuracy", data, own.best, others.best), Relation::kObserved,
                              kNan, 100 * difference.mean, 0, "points"});
  }
  return words;
}

// How the stored results were made; they may not transfer to other sizes.
std::string DescribeCaveats(const Bench& bench) {
  std::string words;
  for (const AblationResults& results : bench.setup().ablations) {
    words += fmt::format("{}: {} of {} runs", results.title, results.runs.size(), results.planned);
    for (const auto& [name, value] : results.facts) {
      if (name == "Model" || name == "Training" || name == "Equal") words += fmt::format("; {}: {}", name, value);
    }
    words += ". ";
  }
  return words;
}

// Tables and charts of these arms, where several of them were trained.
void AddResults(const Bench& bench, std::span<const std::string_view> shown, Result* result) {
  for (const AblationResults& results : bench.setup().ablations) {
    for (const std::string& data : results.Data()) {
      std::vector<ArmSummary> arms = Summarise(results, data);
      std::erase_if(arms, [&](const ArmSummary& arm) { return std::ranges::find(shown, arm.arm) == shown.end(); });
      if (arms.size() < 2) continue;
      result->tables.push_back(AccuracyTable(arms, fmt::format("{}: differences to {}", data, results.arms[0])));
      if (std::ranges::any_of(arms, [](const ArmSummary& arm) { return std::isfinite(arm.difference.mean); })) {
        result->pictures.push_back(
            {DifferenceChart(arms, data), "Means of paired differences, with intervals of 95 %."});
      }
    }
  }
}

// The arms that C6 compares, and those of C11.
constexpr std::string_view kSharingArms[] = {kSeparate, "shared", "unified", "shared_kv"};
constexpr std::string_view kMergingArms[] = {kSeparate, "separate:qkv-bias=false", "merged"};

std::string DescribeSource(const Bench& bench) {
  if (bench.setup().ablations.empty()) return "; no results of `qkv ablate` are there";
  std::string words = "; stored results of `qkv ablate`";
  for (const AblationResults& results : bench.setup().ablations) words += fmt::format(" ({})", results.title);
  return words;
}

}  // namespace

Result ReplayLearning(const Bench& bench) {
  Rng rng(bench.seed());
  SmallLayer layer(rng);
  const Tensor<double> gradient = layer.Gradient(), differences = layer.Differences();
  const std::span<const double> all = gradient.span();
  const auto biases = all.subspan(SmallLayer::kBias);
  const double difference = MaxDifference(AsRow(gradient), AsRow(differences)) / Greatest(all);
  const double of_queries = Greatest(biases.subspan(0, SmallLayer::kHeads)),
               of_keys = Greatest(biases.subspan(SmallLayer::kHeads, SmallLayer::kHeads));
  Result result{
      .title = "Learned, and separation helps",
      .claim = "The projections are learned by backpropagation, and separation helps classification and detection.",
      .run =
          fmt::format("gradients of a layer of {} heads of {} on {} tokens in double precision, by backpropagation and "
                      "by differences of every weight{}",
                      SmallLayer::kH, SmallLayer::kE, SmallLayer::kN, DescribeSource(bench)),
      // Central differences of step 1e-5: error 1e-10 of the third derivative, and as much rounding.
      .checks = {{"backpropagation against differences, relative", Relation::kAtMost, 0, difference, 1e-7},
                 {"gradient of b_K / that of b_Q", Relation::kAtMost, 0, of_keys / of_queries,
                  Rounding(100, SmallLayer::kN * SmallLayer::kD, 1)}},
      .tables = {},
      .pictures = {}};
  result.reason =
      "All three projections get gradients from any loss, and nothing tells one what to become; the keys' bias alone "
      "gets "
      "none, since softmax does not see it. ";
  const Findings shared = Compare(bench, "shared", kSeparate);
  if (!shared.any()) {
    result.verdict = Verdict::kNotMeasured;
    result.reason += "Whether separation then helps is a question to trainings, of which no results are stored here.";
    return result;
  }
  result.verdict = ChooseVerdict(shared.worse, shared.better);
  result.reason += shared.words;
  for (const char* arm : {"unified", "shared_kv"}) {
    const Findings more = Compare(bench, arm, kSeparate);
    result.reason += more.words;
    result.checks.insert(result.checks.end(), more.checks.begin(), more.checks.end());
  }
  result.checks.insert(result.checks.end(), shared.checks.begin(), shared.checks.end());
  result.reason += CompareAtBestRates(bench, "shared", kSeparate, &result);
  result.reason += shared.worse == 0 ? "So no help of separate queries and keys is to be seen in these trainings. "
                                     : fmt::format("So separate queries and keys help in {} of {} tasks here. ",
                                                   shared.worse, shared.worse + shared.open + shared.better);
  result.reason += "Small models, trained briefly; detection was not tried. " + DescribeCaveats(bench);
  AddResults(bench, kSharingArms, &result);
  return result;
}

Result ReplayOneMatrix(const Bench& bench) {
  // One head of E features on D; the loss is <G, M>, so G is the gradient of M.
  constexpr int64_t kD = 8, kE = 3;
  constexpr double kRate = 0.1;
  Rng rng(bench.seed());
  const Matrix q = Normal({kE, kD}, rng), k = Normal({kE, kD}, rng), g = Normal({kD, kD}, rng);
  const Matrix m = Multiply(algebra::Transpose(q), k);
  // A gradient step on the two matrices: dW_Q = W_K Gᵀ, dW_K = W_Q G.
  const Matrix q_next = Sum(q, Multiply(k, algebra::Transpose(g)), -kRate), k_next = Sum(k, Multiply(q, g), -kRate);
  const Matrix of_two = Multiply(algebra::Transpose(q_next), k_next);
  const Matrix gkk = Multiply(g, Multiply(algebra::Transpose(k), k)),
               qqg = Multiply(Multiply(algebra::Transpose(q), q), g);
  const Matrix second = Multiply(Multiply(g, algebra::Transpose(k)), Multiply(q, g));
  const Matrix predicted = Sum(Sum(Sum(m, gkk, -kRate), qqg, -kRate), second, kRate * kRate);
  const Matrix of_one = Sum(m, g, -kRate);
  Matrix identity({kD, kD});
  for (int64_t i = 0; i < kD; ++i) identity[i * kD + i] = 1;
  const double magnitude = Norm(q) * Norm(k) + kRate * Norm(g) * (Norm(q) * Norm(q) + Norm(k) * Norm(k)) +
                           kRate * kRate * Norm(g) * Norm(g) * Norm(q) * Norm(k);
  Result result{
      .title = "Does one matrix train worse?",
      .claim = "One matrix in place of two may train worse: the text leaves it open.",
      .run = fmt::format(
          "a step of gradient descent of size {} on W_Q and W_K ({}×{}), and on M = W_QᵀW_K, from the same M "
          "and for the same gradient of M{}",
          kRate, kE, kD, DescribeSource(bench)),
      .checks = {{"M of W_Q, W_K after the step: difference to M − η(G W_KᵀW_K + W_QᵀW_Q G) + η² G W_KᵀW_Q G",
                  Relation::kAtMost, 0, MaxDifference(of_two, predicted), Rounding(6, kD, magnitude)},
                 {"its rank", Relation::kEquals, kE, static_cast<double>(inspect::MeasureCircuit(q_next, k_next).rank)},
                 {"rank of M − ηG, one matrix", Relation::kEquals, kD,
                  static_cast<double>(inspect::MeasureCircuit(identity, of_one).rank)}},
      .tables = {},
      .pictures = {}};
  result.reason =
      "It trains otherwise: a step on two factors moves M by G weighted with W_KᵀW_K and W_QᵀW_Q, so strong directions "
      "learn faster, and its rank stays that of a head; a step on M moves it by G, along all directions alike. ";
  const Findings found = Compare(bench, "merged", kSeparate);
  const Findings plain = Compare(bench, "merged", "separate:qkv-bias=false");
  if (!found.any() && !plain.any()) {
    result.verdict = Verdict::kNotMeasured;
    result.reason += "Whether that is worse is a question to trainings, of which no results are stored here.";
    return result;
  }
  result.verdict = ChooseVerdict(found.worse + plain.worse, found.better + plain.better);
  result.reason += found.words + plain.words;
  for (const Findings* findings : {&found, &plain}) {
    result.checks.insert(result.checks.end(), findings->checks.begin(), findings->checks.end());
  }
  const std::string rates = CompareAtBestRates(bench, "merged", kSeparate, &result);
  result.reason += rates;
  result.reason += fmt::format(
      "An arm's merged heads have D×D numbers each, so more of them and a larger cost; {} those that suit two "
      "matrices. Small models, trained briefly. ",
      rates.empty() ? "learning rate and decay are" : "the decay is");
  result.reason += DescribeCaveats(bench);
  AddResults(bench, kMergingArms, &result);
  return result;
}

}  // namespace qkv::lab::internal
