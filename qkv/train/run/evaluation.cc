#include "qkv/train/run/evaluation.h"

#include <algorithm>
#include <cmath>

#include "qkv/core/error.h"

namespace qkv::train {

Evaluation::Evaluation(int64_t classes) : classes_(classes), bins_(kCalibrationBins) {
  Require(classes >= 1, "evaluation: {} classes", classes);
}

void Evaluation::Add(View<const float> logits, std::span<const int64_t> labels) {
  Require(logits.shape() == Shape({std::ssize(labels), classes_}), "evaluation: logits {} for {} images of {} classes",
          logits.shape(), labels.size(), classes_);
  for (int64_t i = 0; i < std::ssize(labels); ++i) {
    const int64_t truth = labels[static_cast<size_t>(i)];
    Require(truth >= 0 && truth < classes_, "evaluation: a label {}, expected one below {}", truth, classes_);
    const float* row = logits.row(i);
    const int64_t guess = std::max_element(row, row + classes_) - row;
    double sum = 0;
    int64_t before = 0;  // classes ranked above the true one: greater, or equal and earlier
    for (int64_t c = 0; c < classes_; ++c) {
      sum += std::exp(double{row[c]} - row[guess]);
      before += row[c] > row[truth] || (row[c] == row[truth] && c < truth);
    }
    // Comparisons with NaN are false: such a prediction counts as wrong.
    const bool known = !std::isnan(sum);
    const double confidence = known ? 1 / sum : 0;
    ++images_;
    right_ += known && before < 1;
    right5_ += known && before < 5;
    nll_ += std::log(sum) - (double{row[truth]} - row[guess]);
    ++confusion_[{truth, guess}];
    const auto bin = static_cast<size_t>(std::clamp<int64_t>(
        static_cast<int64_t>(std::ceil(confidence * kCalibrationBins)) - 1, 0, kCalibrationBins - 1));
    ++bins_[bin].images;
    bins_[bin].right += known && guess == truth;
    bins_[bin].confidence += confidence;
  }
}

void Evaluation::Combine(const std::function<void(std::span<double>)>& sum) {
  std::vector<double> values = {static_cast<double>(images_), right_, right5_, nll_};
  for (const CalibrationBin& bin : bins_) {
    for (const double value : {static_cast<double>(bin.images), static_cast<double>(bin.right), bin.confidence}) {
      values.push_back(value);
    }
  }
  sum(values);
  images_ = std::llround(values[0]), right_ = values[1], right5_ = values[2], nll_ = values[3];
  for (size_t i = 0; i < bins_.size(); ++i) {
    const double* const at = &values[4 + 3 * i];
    bins_[i] = {std::llround(at[0]), std::llround(at[1]), at[2]};
  }
  // Row by row: with many classes the full matrix is large and sparse.
  std::vector<double> row(static_cast<size_t>(classes_));
  for (int64_t truth = 0; truth < classes_; ++truth) {
    for (int64_t guess = 0; guess < classes_; ++guess) {
      row[static_cast<size_t>(guess)] = static_cast<double>(confusion(truth, guess));
    }
    sum(row);
    for (int64_t guess = 0; guess < classes_; ++guess) {
      const int64_t count = std::llround(row[static_cast<size_t>(guess)]);
      if (count > 0) confusion_[{truth, guess}] = count;
    }
  }
}

double Evaluation::calibration_error() const {
  double sum = 0;
  for (const CalibrationBin& bin : bins_) sum += std::abs(static_cast<double>(bin.right) - bin.confidence);
  return Share(sum);
}

int64_t Evaluation::confusion(int64_t truth, int64_t guess) const {
  const auto at = confusion_.find({truth, guess});
  return at == confusion_.end() ? 0 : at->second;
}

std::vector<int64_t> Evaluation::guesses() const {
  std::vector<int64_t> images(static_cast<size_t>(classes_));
  for (const auto& [pair, count] : confusion_) images[static_cast<size_t>(pair.second)] += count;
  return images;
}

int64_t Evaluation::images_of(int64_t truth) const {
  int64_t images = 0;
  for (auto at = confusion_.lower_bound({truth, 0}); at != confusion_.end() && at->first.first == truth; ++at) {
    images += at->second;
  }
  return images;
}

int64_t Evaluation::most_frequent_mistake(int64_t truth) const {
  int64_t most = 0, mistake = -1;
  for (auto at = confusion_.lower_bound({truth, 0}); at != confusion_.end() && at->first.first == truth; ++at) {
    if (at->first.second == truth || at->second <= most) continue;
    most = at->second;
    mistake = at->first.second;
  }
  return mistake;
}

}  // namespace qkv::train
