// How good a classifier's answers are: accuracy, who is taken for whom, and whether its probabilities can be believed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "qkv/core/tensor.h"

namespace qkv::train {

/// Bins of equal width of the greatest probability.
inline constexpr int kCalibrationBins = 15;

struct CalibrationBin {
  int64_t images = 0, right = 0;
  double confidence = 0;  // sum of the greatest probabilities
};

class Evaluation {
 public:
  /// Throws Error for fewer than one class.
  explicit Evaluation(int64_t classes);

  /// logits: [B, classes], labels: [B]. Throws Error for other shapes and for a label that is no class.
  void Add(View<const float> logits, std::span<const int64_t> labels);

  /// Takes in what other processes have counted of other images. `sum` makes of values their sums over all processes;
  /// all combine at the same time.
  void Combine(const std::function<void(std::span<double>)>& sum);

  int64_t classes() const { return classes_; }
  int64_t images() const { return images_; }
  // Shares of the images; 0 when there are none.
  double top1() const { return Share(right_); }
  double top5() const { return Share(right5_); }  // of fewer than five classes: 1
  /// Mean of −log of the true class's probability.
  double nll() const { return Share(nll_); }
  /// Expected calibration error (Guo et al. 2017): mean over the images of |share right − confidence| of their bin.
  double calibration_error() const;
  std::span<const CalibrationBin> bins() const { return bins_; }
  /// Images of class `truth` that were taken for `guess`. A tie goes to the first of the classes.
  int64_t confusion(int64_t truth, int64_t guess) const;
  int64_t images_of(int64_t truth) const;
  /// The wrong class that images of this one are taken for most often; −1 where none is.
  int64_t most_frequent_mistake(int64_t truth) const;

 private:
  double Share(double sum) const { return images_ > 0 ? sum / static_cast<double>(images_) : 0; }

  int64_t classes_, images_ = 0;
  double right_ = 0, right5_ = 0, nll_ = 0;
  std::map<std::pair<int64_t, int64_t>, int64_t> confusion_;  // truth, guess: few of the pairs occur
  std::vector<CalibrationBin> bins_;
};

}  // namespace qkv::train
