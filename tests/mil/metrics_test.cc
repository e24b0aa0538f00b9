// Areas under ROC curves against the count of pairs, and intervals.
#include "qkv/mil/metrics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "qkv/core/rng.h"

namespace qkv::mil {
namespace {

std::vector<Prediction> RandomPredictions(int64_t slides, int64_t classes, double signal, uint64_t seed) {
  Rng rng(seed);
  std::vector<Prediction> predictions;
  for (int64_t i = 0; i < slides; ++i) {
    Prediction p{.slide = std::to_string(i), .patient = std::to_string(i / 2), .label = i % classes};
    for (int64_t c = 0; c < classes; ++c) {
      // Few values, so that some are equal.
      p.probabilities.push_back(std::floor(4 * (rng.Uniform() + (c == p.label ? signal : 0))) / 8);
    }
    predictions.push_back(p);
  }
  return predictions;
}

double PairAuc(const std::vector<Prediction>& predictions, size_t c) {
  double wins = 0, pairs = 0;
  for (const Prediction& a : predictions) {
    for (const Prediction& b : predictions) {
      if (a.label != static_cast<int64_t>(c) || b.label == static_cast<int64_t>(c)) continue;
      const double x = a.probabilities[c], y = b.probabilities[c];
      wins += x > y ? 1 : x == y ? 0.5 : 0, ++pairs;
    }
  }
  return wins / pairs;
}

TEST(Metrics, AucIsThePartOfPairsInOrder) {
  for (const int64_t classes : {2, 4}) {
    const auto predictions = RandomPredictions(60, classes, 0.4, 7);
    const Metrics metrics = Measure(predictions, classes, 0, 0);
    double mean = 0;
    for (size_t c = 0; c < static_cast<size_t>(classes); ++c) {
      EXPECT_NEAR(metrics.class_auc[c], PairAuc(predictions, c), 1e-12);
      mean += metrics.class_auc[c] / static_cast<double>(classes);
    }
    EXPECT_NEAR(metrics.auc.value, classes == 2 ? metrics.class_auc[1] : mean, 1e-12);
  }
}

TEST(Metrics, KnownValues) {
  const std::vector<double> scores = {0.1, 0.4, 0.35, 0.8};
  const std::vector<uint8_t> positive = {0, 0, 1, 1};
  EXPECT_DOUBLE_EQ(Auc(scores, positive), 0.75);  // of scikit-learn's documentation
  const std::vector<int64_t> counts = {1, 0, 2, 1};
  EXPECT_DOUBLE_EQ(Auc(scores, positive, counts), 1);
  EXPECT_TRUE(std::isnan(Auc(scores, std::vector<uint8_t>(4, 1))));
  const std::vector<Prediction> three = {
      {"a", "a", 0, {0.9, 0.1}}, {"b", "b", 0, {0.8, 0.2}}, {"c", "c", 1, {0.6, 0.4}}};
  const Metrics metrics = Measure(three, 2, 100, 1);
  EXPECT_DOUBLE_EQ(metrics.accuracy.value, 2.0 / 3);
  EXPECT_DOUBLE_EQ(metrics.balanced_accuracy.value, 0.5);
  EXPECT_DOUBLE_EQ(metrics.auc.value, 1);
  EXPECT_LT(metrics.resamples, 100);  // some have no slide of the second class
  EXPECT_EQ(metrics.confusion[1][0], 1);
}

// The deviation of an accuracy over n independent patients is √(p (1 − p) / n).
TEST(Metrics, IntervalsHaveTheirWidth) {
  std::vector<Prediction> predictions;
  for (int i = 0; i < 400; ++i) {
    const bool right = i % 5 != 0;
    predictions.push_back({std::to_string(i), std::to_string(i), i % 2, {}});
    predictions.back().probabilities = (i % 2 == 1) == right ? std::vector{0.3, 0.7} : std::vector{0.7, 0.3};
  }
  const Metrics metrics = Measure(predictions, 2, 2000, 3);
  const double deviation = std::sqrt(0.8 * 0.2 / 400);
  EXPECT_NEAR(metrics.accuracy.value, 0.8, 1e-12);
  EXPECT_NEAR(metrics.accuracy.high - metrics.accuracy.low, 2 * 1.96 * deviation, 0.15 * 2 * 1.96 * deviation);
  EXPECT_NEAR(metrics.accuracy.high - 0.8, 0.8 - metrics.accuracy.low, 0.01);
  EXPECT_EQ(metrics.resamples, 2000);
  // Two slides of a patient that agree are one observation.
  std::vector<Prediction> twice = predictions;
  for (const Prediction& p : predictions) twice.push_back({p.slide + "'", p.patient, p.label, p.probabilities});
  const Metrics same = Measure(twice, 2, 2000, 3);
  EXPECT_NEAR(same.accuracy.high - same.accuracy.low, metrics.accuracy.high - metrics.accuracy.low, 1e-9);
  const Metrics again = Measure(predictions, 2, 2000, 3);
  EXPECT_EQ(again.auc.low, metrics.auc.low);
}

}  // namespace
}  // namespace qkv::mil
