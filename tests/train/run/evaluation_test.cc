// Accuracy and calibration of answers whose scores are known by hand.
#include "qkv/train/run/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "qkv/core/error.h"
#include "tests/support/sampler.h"

namespace qkv::train {
namespace {

TEST(Evaluation, CountsByHand) {
  // Probabilities e / (e + 6) = 0.312 for the first of seven.
  Tensor<float> logits({4, 7});
  *logits.view().at(0, 2) = 1;
  *logits.view().at(1, 2) = 1;
  *logits.view().at(2, 5) = 1;
  *logits.view().at(3, 0) = 1;
  Evaluation evaluation(7);
  evaluation.Add(logits, std::vector<int64_t>{2, 3, 6, 6});
  EXPECT_EQ(evaluation.images(), 4);
  EXPECT_DOUBLE_EQ(evaluation.top1(), 0.25);
  // Of the third 5, 0, 1, 2, 3 come before 6; of the second 2, 0, 1 before 3.
  EXPECT_DOUBLE_EQ(evaluation.top5(), 0.5);
  const double e = std::exp(1), p = e / (e + 6);
  EXPECT_NEAR(evaluation.nll(), -(std::log(p) + 3 * std::log(1 / (e + 6))) / 4, 1e-12);
  EXPECT_EQ(evaluation.confusion(6, 5), 1);
  EXPECT_EQ(evaluation.confusion(2, 2), 1);
  EXPECT_EQ(evaluation.images_of(6), 2);
  EXPECT_EQ(evaluation.most_frequent_mistake(6), 0);  // as often as 5: the first
  EXPECT_EQ(evaluation.most_frequent_mistake(2), -1);
  EXPECT_NEAR(evaluation.calibration_error(), std::abs(1.0 - 4 * p) / 4, 1e-12);
  EXPECT_EQ(evaluation.bins()[4].images, 4);  // 0.312 · 15 = 4.7
}

TEST(Evaluation, BatchesAddUp) {
  Sampler sampler(1);
  const Tensor<float> logits = sampler.Normal<float>({30, 10});
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < 30; ++i) labels.push_back(i % 10);
  Evaluation whole(10), parts(10);
  whole.Add(logits, labels);
  for (int64_t i = 0; i < 30; i += 7) {
    const int64_t end = std::min<int64_t>(30, i + 7);
    parts.Add(logits.view().slice(0, i, end),
              std::span(labels).subspan(static_cast<size_t>(i), static_cast<size_t>(end - i)));
  }
  EXPECT_EQ(whole.top1(), parts.top1());
  EXPECT_EQ(whole.top5(), parts.top5());
  EXPECT_EQ(whole.nll(), parts.nll());
  EXPECT_EQ(whole.calibration_error(), parts.calibration_error());
  int64_t images = 0;
  for (int64_t truth = 0; truth < 10; ++truth) images += whole.images_of(truth);
  EXPECT_EQ(images, 30);
}

// Answers that are right as often as they say are calibrated, however unsure; overconfident ones are not.
TEST(Evaluation, CalibrationIsWhatItSays) {
  Rng rng(4);
  Evaluation honest(2), boasting(2);
  const int n = 20000;
  for (int i = 0; i < n; ++i) {
    const double p = 0.5 + 0.5 * rng.Uniform(), logit = std::log(p / (1 - p));
    const std::vector<int64_t> label = {rng.Uniform() < p ? 1 : 0};
    Tensor<float> logits({1, 2});
    logits[1] = static_cast<float>(logit);
    honest.Add(logits, label);
    logits[1] = static_cast<float>(3 * logit);
    boasting.Add(logits, label);
  }
  EXPECT_EQ(honest.top1(), boasting.top1());
  // A bin's share is off by 5 standard deviations at most; 8 bins hold n images.
  EXPECT_LT(honest.calibration_error(), 5 * 0.5 / std::sqrt(n / 8.0));
  EXPECT_GT(boasting.calibration_error(), 0.1);
  EXPECT_GT(boasting.nll(), honest.nll());
}

TEST(Evaluation, WhatIsNoNumberIsWrong) {
  Tensor<float> logits({1, 3});
  for (float& x : logits.span()) x = std::numeric_limits<float>::quiet_NaN();
  Evaluation evaluation(3);
  evaluation.Add(logits, std::vector<int64_t>{0});
  EXPECT_EQ(evaluation.top1(), 0);
  EXPECT_EQ(evaluation.top5(), 0);
}

TEST(Evaluation, RefusesWhatDoesNotFit) {
  EXPECT_THROW(Evaluation(0), Error);
  Evaluation evaluation(3);
  Tensor<float> logits({2, 3});
  EXPECT_THROW(evaluation.Add(logits, std::vector<int64_t>{0}), Error);
  EXPECT_THROW(evaluation.Add(logits, std::vector<int64_t>{0, 3}), Error);
  EXPECT_THROW(evaluation.Add(logits, std::vector<int64_t>{0, -1}), Error);
  EXPECT_EQ(Evaluation(3).top1(), 0);
}

}  // namespace
}  // namespace qkv::train
