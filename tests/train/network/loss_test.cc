// Cross entropy against PyTorch's, against finite differences, and at its edges.
#include "qkv/train/network/loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "qkv/core/parallel.h"
#include "tests/support/errors.h"
#include "tests/support/isas.h"
#include "tests/support/sampler.h"
#include "tests/support/threads.h"
#include "tests/train/golden.h"

namespace qkv::train {
namespace {

class LossTest : public IsaTest {};
QKV_FOR_ALL_ISAS(LossTest);

template <typename T>
void CheckCase(const Golden& golden, const std::string& name, double smoothing) {
  const auto logits = golden.Get<T>("loss/logits"), targets = golden.Get<T>("loss/targets");
  const io::StoredTensor* stored = golden.file().Find("loss/labels");
  std::vector<int64_t> labels(static_cast<size_t>(logits.dim(0)));
  ASSERT_EQ(stored->bytes.size(), labels.size() * sizeof(int64_t));
  std::memcpy(labels.data(), stored->bytes.data(), stored->bytes.size());
  const bool soft = name.starts_with("soft");
  const auto exact = golden.Get<double>(name + "/loss.float64");
  const auto theirs = golden.Get<float>(name + "/loss");

  Tensor<T> dlogits(logits.shape()), rows({logits.dim(0)});
  const int64_t counted = soft ? logits.dim(0) : logits.dim(0) - 1;
  const LossOptions options{.smoothing = smoothing, .scale = 1.0 / static_cast<double>(counted)};
  const LossSum all = soft ? CrossEntropy<T>(logits, targets.view(), options, dlogits)
                           : CrossEntropy<T>(logits, labels, options, dlogits);
  golden.ExpectRight(name + "/dlogits", dlogits);

  // Each row on its own, and what they are together.
  LossSum sum;
  int64_t correct = 0;
  for (int64_t r = 0; r < logits.dim(0); ++r) {
    const View<const T> row = logits.view().slice(0, r, r + 1);
    const LossSum one =
        soft ? CrossEntropy<T>(row, targets.view().slice(0, r, r + 1), options, dlogits.view().slice(0, r, r + 1))
             : CrossEntropy<T>(row, std::span(labels).subspan(static_cast<size_t>(r), 1), options,
                               dlogits.view().slice(0, r, r + 1));
    rows[r] = static_cast<T>(one.loss);
    sum += one;
    const auto greatest = [&](const T* x) { return std::max_element(x, x + logits.dim(1)) - x; };
    correct += greatest(row.data()) == (soft ? greatest(targets.view().row(r)) : labels[static_cast<size_t>(r)]);
  }
  golden.ExpectRight(name + "/loss", rows);
  EXPECT_EQ(all.rows, counted);
  EXPECT_EQ(all.correct, correct);
  EXPECT_EQ(sum.rows, all.rows);
  EXPECT_EQ(sum.correct, all.correct);
  EXPECT_NEAR(sum.loss, all.loss, 1e-14 * all.loss);
}

TEST_P(LossTest, EqualsPyTorch) {
  const Golden golden;
  for (const auto& [name, smoothing] : {std::pair("hard", 0.0), {"smooth", 0.1}, {"soft", 0.0}, {"soft_smooth", 0.2}}) {
    CheckCase<float>(golden, name, smoothing);
    CheckCase<double>(golden, name, smoothing);
  }
}

TEST(CrossEntropy, GradientIsThatOfFiniteDifferences) {
  constexpr int64_t kRows = 5, kClasses = 7;
  constexpr double kStep = 1e-5;
  Sampler sampler(1);
  auto logits = sampler.Normal<double>({kRows, kClasses}, 0, 2);
  auto targets = sampler.Normal<double>({kRows, kClasses});
  for (double& t : targets.span()) t = std::abs(t);  // rows that do not sum to 1
  const std::vector<int64_t> labels = {3, kIgnoredLabel, 0, 6, 3};
  const LossOptions options{.smoothing = 0.3, .scale = 1};
  for (const bool soft : {false, true}) {
    Tensor<double> dlogits(logits.shape()), scratch(logits.shape());
    const auto loss = [&](View<double> d) {
      return soft ? CrossEntropy<double>(logits, targets.view(), options, d).loss
                  : CrossEntropy<double>(logits, labels, options, d).loss;
    };
    loss(dlogits);
    for (int64_t i = 0; i < logits.size(); ++i) {
      const double before = logits[i];
      logits[i] = before + kStep;
      const double above = loss(scratch);
      logits[i] = before - kStep;
      const double below = loss(scratch);
      logits[i] = before;
      // The third derivative of a row's loss is below Σ t; the sums of about 30 are rounded.
      ASSERT_NEAR(dlogits[i], (above - below) / (2 * kStep), 10 * kStep * kStep + 30 * 2e-16 / kStep) << i;
    }
  }
}

TEST_P(LossTest, IsStableAndMayWorkInPlace) {
  const float inf = std::numeric_limits<float>::infinity();
  // Far apart: the loss is the distance, though e^−20000 is 0. A class of −∞ is none.
  Tensor<float> logits({3, 4});
  const float values[] = {10000, -10000, 0, 0, 1, -inf, 1, 1, -1e30f, -1e30f, -1e30f, -1e30f};
  std::copy(std::begin(values), std::end(values), logits.data());
  Tensor<float> dlogits({3, 4});
  const std::vector<int64_t> labels = {1, 0, 2};
  const LossSum sum = CrossEntropy<float>(logits, labels, {}, dlogits);
  EXPECT_NEAR(sum.loss, 20000 + std::log(3) + std::log(4), 1e-2);
  EXPECT_EQ(dlogits[0], 1);
  EXPECT_EQ(dlogits[1], -1);
  EXPECT_EQ(dlogits[5], 0);
  EXPECT_EQ(dlogits[8], 0.25f);

  const LossSum again = CrossEntropy<float>(logits, labels, {}, logits);
  EXPECT_EQ(again.loss, sum.loss);
  for (int64_t i = 0; i < logits.size(); ++i) EXPECT_EQ(logits[i], dlogits[i]);
}

TEST(CrossEntropy, ThreadsDoNotChangeIt) {
  constexpr int64_t kRows = 3000, kClasses = 37;  // seven pieces
  const auto logits = Sampler(2).Normal<float>({kRows, kClasses}, 0, 3);
  std::vector<int64_t> labels;
  for (int64_t r = 0; r < kRows; ++r) labels.push_back(r % 5 == 0 ? kIgnoredLabel : r % kClasses);
  const RestoreThreads restore;
  Tensor<float> one(logits.shape()), many(logits.shape());
  SetNumThreads(1);
  const LossSum first = CrossEntropy<float>(logits, labels, {.smoothing = 0.1}, one);
  SetNumThreads(3);
  const LossSum second = CrossEntropy<float>(logits, labels, {.smoothing = 0.1}, many);
  EXPECT_EQ(first.rows, kRows / 5 * 4);
  EXPECT_EQ(first.loss, second.loss);
  EXPECT_EQ(first.correct, second.correct);
  EXPECT_EQ(std::memcmp(one.data(), many.data(), sizeof(float) * static_cast<size_t>(one.size())), 0);
}

TEST(CrossEntropy, RefusesWhatDoesNotFit) {
  Tensor<float> logits({2, 3}), other({2, 4});
  const auto with = [&](std::vector<int64_t> labels) {
    return ErrorMessage([&] { CrossEntropy<float>(logits, labels, {}, logits); });
  };
  EXPECT_EQ(with({0, 2}), "");
  EXPECT_EQ(with({0, 3}), "cross entropy: expected labels from 0 to 2 (or -100: ignored), got 3");
  EXPECT_EQ(with({0, -1}), "cross entropy: expected labels from 0 to 2 (or -100: ignored), got -1");
  EXPECT_EQ(with({0}), "cross entropy: expected 2 labels, got 1");
  EXPECT_THROW(CrossEntropy<float>(logits, View<const float>(other), {}, logits), Error);
  EXPECT_THROW(CrossEntropy<float>(logits, View<const float>(logits), {}, other), Error);
  EXPECT_THROW(CrossEntropy<float>(logits, View<const float>(logits), {.smoothing = 2}, logits), Error);
}

}  // namespace
}  // namespace qkv::train
