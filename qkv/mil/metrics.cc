#include "qkv/mil/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "qkv/core/error.h"
#include "qkv/core/rng.h"
#include "qkv/core/work.h"

namespace qkv::mil {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

// One class against the rest, with the order of the scores, which all resamples share.
struct RankedClass {
  std::vector<double> scores;
  std::vector<uint8_t> positive;
  std::vector<size_t> order;  // by score, ascending
};

RankedClass Rank(std::span<const double> scores, std::span<const uint8_t> positive) {
  RankedClass ranked{{scores.begin(), scores.end()}, {positive.begin(), positive.end()}, {}};
  ranked.order.resize(scores.size());
  std::iota(ranked.order.begin(), ranked.order.end(), size_t{0});
  std::stable_sort(ranked.order.begin(), ranked.order.end(), [&](size_t a, size_t b) { return scores[a] < scores[b]; });
  return ranked;
}

double RankedAuc(const RankedClass& c, std::span<const int64_t> counts) {
  double below = 0, positives = 0, wins = 0;  // below: negatives with a smaller score
  for (size_t i = 0; i < c.order.size();) {
    double negatives_here = 0, positives_here = 0;
    const double score = c.scores[c.order[i]];
    for (; i < c.order.size() && c.scores[c.order[i]] == score; ++i) {
      const double count = counts.empty() ? 1 : static_cast<double>(counts[c.order[i]]);
      (c.positive[c.order[i]] ? positives_here : negatives_here) += count;
    }
    wins += positives_here * (below + negatives_here / 2);
    below += negatives_here, positives += positives_here;
  }
  return below > 0 && positives > 0 ? wins / (below * positives) : kUndefined;
}

struct Values {
  double auc, accuracy, balanced;
};

Values MeasureOnce(const std::vector<RankedClass>& ranked, std::span<const Prediction> predictions,
                   const std::vector<int64_t>& predicted, std::span<const int64_t> counts) {
  const size_t classes = ranked.size();
  std::vector<double> total(classes), right(classes);
  for (size_t i = 0; i < predictions.size(); ++i) {
    const double count = counts.empty() ? 1 : static_cast<double>(counts[i]);
    const auto label = static_cast<size_t>(predictions[i].label);
    total[label] += count;
    if (predicted[i] == predictions[i].label) right[label] += count;
  }
  Values values{0, std::accumulate(right.begin(), right.end(), 0.0) / std::accumulate(total.begin(), total.end(), 0.0),
                0};
  size_t present = 0;
  for (size_t c = 0; c < classes; ++c) {
    if (total[c] == 0) continue;
    values.balanced += right[c] / total[c];
    ++present;
  }
  values.balanced /= static_cast<double>(present);
  if (classes == 2) {
    values.auc = RankedAuc(ranked[1], counts);
  } else {
    for (const RankedClass& c : ranked) values.auc += RankedAuc(c, counts) / static_cast<double>(classes);
  }
  return values;
}

// Linear between the two nearest ranks, as numpy.percentile.
double Quantile(const std::vector<double>& sorted, double part) {
  if (sorted.empty()) return kUndefined;
  const double at = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

Interval MakeInterval(double value, std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return {value, Quantile(samples, 0.025), Quantile(samples, 0.975)};
}

std::vector<std::vector<size_t>> SlidesByPatient(std::span<const Prediction> predictions) {
  std::map<std::string_view, std::vector<size_t>> slides;
  for (size_t i = 0; i < predictions.size(); ++i) slides[predictions[i].patient].push_back(i);
  std::vector<std::vector<size_t>> patients;
  for (auto& [name, of_patient] : slides) patients.push_back(std::move(of_patient));
  return patients;
}

}  // namespace

int64_t Prediction::predicted() const {
  return std::max_element(probabilities.begin(), probabilities.end()) - probabilities.begin();
}

double Auc(std::span<const double> scores, std::span<const uint8_t> positive, std::span<const int64_t> counts) {
  Require(scores.size() == positive.size() && (counts.empty() || counts.size() == scores.size()),
          "auc: {} scores, {} labels and {} counts, expected equally many", scores.size(), positive.size(),
          counts.size());
  return RankedAuc(Rank(scores, positive), counts);
}

Metrics Measure(std::span<const Prediction> predictions, int64_t classes, int64_t resamples, uint64_t seed) {
  Require(!predictions.empty(), "metrics: no predictions");
  const size_t n = predictions.size(), C = static_cast<size_t>(classes);
  Metrics metrics;
  metrics.confusion.assign(C, std::vector<int64_t>(C));
  std::vector<int64_t> predicted(n);
  for (size_t i = 0; i < n; ++i) {
    Require(predictions[i].probabilities.size() == C && predictions[i].label >= 0 && predictions[i].label < classes,
            "metrics: a prediction of {} classes with label {}, expected {} classes",
            predictions[i].probabilities.size(), predictions[i].label, classes);
    predicted[i] = predictions[i].predicted();
    ++metrics.confusion[static_cast<size_t>(predictions[i].label)][static_cast<size_t>(predicted[i])];
  }
  std::vector<RankedClass> ranked;
  for (size_t c = 0; c < C; ++c) {
    std::vector<double> scores(n);
    std::vector<uint8_t> positive(n);
    for (size_t i = 0; i < n; ++i) {
      scores[i] = predictions[i].probabilities[c], positive[i] = predictions[i].label == static_cast<int64_t>(c);
    }
    ranked.push_back(Rank(scores, positive));
    metrics.class_auc.push_back(RankedAuc(ranked.back(), {}));
  }
  const std::vector<std::vector<size_t>> patients = SlidesByPatient(predictions);
  const Values all = MeasureOnce(ranked, predictions, predicted, {});
  std::vector<double> auc, accuracy, balanced;
  for (int64_t sample = 0; sample < resamples; ++sample) {
    Spend(static_cast<int64_t>(n * C));
    Rng rng(MixSeed(seed, static_cast<uint64_t>(sample)));
    std::vector<int64_t> counts(n);
    for (size_t draw = 0; draw < patients.size(); ++draw) {
      for (const size_t slide : patients[rng.Next() % patients.size()]) ++counts[slide];
    }
    const Values values = MeasureOnce(ranked, predictions, predicted, counts);
    if (!std::isnan(values.auc)) auc.push_back(values.auc);
    accuracy.push_back(values.accuracy), balanced.push_back(values.balanced);
  }
  metrics.slides = static_cast<int64_t>(n), metrics.patients = std::ssize(patients),
  metrics.resamples = std::ssize(auc);
  metrics.auc = MakeInterval(all.auc, std::move(auc));
  metrics.accuracy = MakeInterval(all.accuracy, std::move(accuracy));
  metrics.balanced_accuracy = MakeInterval(all.balanced, std::move(balanced));
  return metrics;
}

}  // namespace qkv::mil
