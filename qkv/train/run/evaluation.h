// Accuracy, confusion matrix and calibration of a classifier.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "qkv/core/tensor.h"

namespace qkv::train {

/// Bins of equal width over the greatest probability.
inline constexpr int kCalibrationBins = 15;

struct CalibrationBin {
  int64_t images = 0, right = 0;
  double confidence = 0;  // sum of the greatest probabilities
};

class Evaluation {
 public:
  /// Throws Error for fewer than one class.
  explicit Evaluation(int64_t classes);

  /// logits: [B, classes], labels: [B]. Throws Error for other shapes and for a label out of range.
  void Add(View<const float> logits, std::span<const int64_t> labels);

  /// Adds the counts that other processes made on other images. `sum` replaces values by their sums over all processes.
  /// Every process must call this.
  void Combine(const std::function<void(std::span<double>)>& sum);

  int64_t classes() const { return classes_; }
  int64_t images() const { return images_; }
  // Fractions of the images; 0 without images.
  double top1() const { return Share(right_); }
  double top5() const { return Share(right5_); }
  /// False for five classes or fewer, among which the first five are always right.
  bool has_top5() const { return classes_ > 5; }
  /// Mean of −log p of the true class.
  double nll() const { return Share(nll_); }
  /// Expected calibration error (Guo et al. 2017): mean over the images of |accuracy − confidence| of their bin.
  double calibration_error() const;
  std::span<const CalibrationBin> bins() const { return bins_; }
  /// Number of images of class `truth` predicted as `guess`. Ties go to the first class.
  int64_t confusion(int64_t truth, int64_t guess) const;
  int64_t images_of(int64_t truth) const;
  std::vector<int64_t> guesses() const;  // [classes] images predicted as each
  /// The most frequent wrong prediction for images of this class; −1 if there are no mistakes.
  int64_t most_frequent_mistake(int64_t truth) const;

 private:
  double Share(double sum) const { return images_ > 0 ? sum / static_cast<double>(images_) : 0; }

  int64_t classes_, images_ = 0;
  double right_ = 0, right5_ = 0, nll_ = 0;
  std::map<std::pair<int64_t, int64_t>, int64_t> confusion_;  // (truth, guess); sparse
  std::vector<CalibrationBin> bins_;
};

}  // namespace qkv::train
