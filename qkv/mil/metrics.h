// How good predictions of slides are: area under the ROC curve, accuracy, and intervals by resampling patients.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace qkv::mil {

struct Prediction {
  std::string slide, patient;
  int64_t label = 0;                  // the true class
  std::vector<double> probabilities;  // of each class
  int64_t fold = 0;                   // whose model made it

  /// The most probable class.
  int64_t predicted() const;
};

/// The part of pairs of a positive and a negative whose positive has the greater score; ties count half (Hanley and
/// McNeil 1982). counts: how often each counts, or empty for once. NaN without positives or negatives.
double Auc(std::span<const double> scores, std::span<const uint8_t> positive, std::span<const int64_t> counts = {});

/// A value and its 95 % percentile interval; NaN if it is not defined.
struct Interval {
  double value = 0, low = 0, high = 0;
};

struct Metrics {
  Interval auc;  // of two classes that of the second; of several the mean of each against the rest
  Interval accuracy, balanced_accuracy;             // balanced: mean over classes of the part that is recognised
  std::vector<double> class_auc;                    // each class against the rest
  std::vector<std::vector<int64_t>> confusion;      // [true][predicted]
  int64_t slides = 0, patients = 0, resamples = 0;  // resamples: that had all classes
};

/// Intervals from `resamples` samples of patients, drawn with replacement from a seed, each with all of its slides
/// (Efron and Tibshirani 1993, §13.3). Samples without one of the classes do not count for the AUC. Throws Error
/// without predictions, or if one has another number of classes.
Metrics Measure(std::span<const Prediction> predictions, int64_t classes, int64_t resamples, uint64_t seed);

}  // namespace qkv::mil
