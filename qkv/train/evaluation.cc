#include "qkv/train/evaluation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "qkv/core/error.h"

namespace qkv::train {

Evaluation::Evaluation(int64_t classes)
    : classes_(classes), confusion_(static_cast<size_t>(std::max<int64_t>(classes, 0) * std::max<int64_t>(classes, 0))),
      bins_(kCalibrationBins) {
  Require(classes >= 1, "evaluation: {} classes", classes);
}

void Evaluation::Add(View<const float> logits, std::span<const int64_t> labels) {
  Require(logits.shape() == Shape({std::ssize(labels), classes_}), "evaluation: logits {} for {} images of {} classes",
          ToString(logits.shape()), labels.size(), classes_);
  for (int64_t i = 0; i < std::ssize(labels); ++i) {
    const int64_t truth = labels[static_cast<size_t>(i)];
    Require(truth >= 0 && truth < classes_, "evaluation: a label {}, expected one below {}", truth, classes_);
    const float* row = logits.row(i);
    const int64_t guess = std::max_element(row, row + classes_) - row;
    double sum = 0;
    int64_t before = 0;  // classes that come before the true one: greater, or equal and earlier
    for (int64_t c = 0; c < classes_; ++c) {
      sum += std::exp(double{row[c]} - row[guess]);
      before += row[c] > row[truth] || (row[c] == row[truth] && c < truth);
    }
    // Every comparison with a NaN is false: such an answer is wrong, not first.
    const bool known = !std::isnan(sum);
    const double confidence = known ? 1 / sum : 0;
    ++images_;
    right_ += known && before < 1;
    right5_ += known && before < 5;
    nll_ += std::log(sum) - (double{row[truth]} - row[guess]);
    ++confusion_[static_cast<size_t>(truth * classes_ + guess)];
    const auto bin = static_cast<size_t>(std::clamp<int64_t>(
        static_cast<int64_t>(std::ceil(confidence * kCalibrationBins)) - 1, 0, kCalibrationBins - 1));
    ++bins_[bin].images;
    bins_[bin].right += known && guess == truth;
    bins_[bin].confidence += confidence;
  }
}

double Evaluation::calibration_error() const {
  double sum = 0;
  for (const CalibrationBin& bin : bins_) sum += std::abs(static_cast<double>(bin.right) - bin.confidence);
  return Share(sum);
}

int64_t Evaluation::images_of(int64_t truth) const {
  const auto row = confusion_.begin() + truth * classes_;
  return std::accumulate(row, row + classes_, int64_t{0});
}

int64_t Evaluation::most_frequent_mistake(int64_t truth) const {
  int64_t most = 0, mistake = -1;
  for (int64_t guess = 0; guess < classes_; ++guess) {
    if (guess == truth || confusion(truth, guess) <= most) continue;
    most = confusion(truth, guess);
    mistake = guess;
  }
  return mistake;
}

}  // namespace qkv::train
