// Learning rates against PyTorch's schedulers.
#include "qkv/train/optimizer/schedule.h"

#include <gtest/gtest.h>

#include "tests/train/golden.h"

namespace qkv::train {
namespace {

void ExpectRates(const Schedule& schedule, const char* name) {
  Validate(schedule);
  const Tensor<double> rates = Golden().Get<double>(name);
  ASSERT_EQ(rates.size(), schedule.steps);
  for (int64_t step = 0; step < rates.size(); ++step) {
    // PyTorch multiplies its way from step to step: forty roundings of the greatest rate.
    EXPECT_NEAR(LearningRate(schedule, step), rates[step], 40 * 1.2e-16 * schedule.peak) << name << " step " << step;
  }
}

TEST(Schedule, WarmUpAndCosineAreLinearLrAndCosineAnnealingLr) {
  ExpectRates({.kind = Schedule::Kind::kCosine, .peak = 0.4, .steps = 40, .warmup = 5, .floor = 0.01},
              "schedule/cosine");
}

TEST(Schedule, OneCycleIsOneCycleLr) {
  ExpectRates({.kind = Schedule::Kind::kOneCycle, .peak = 0.4, .steps = 37}, "schedule/one_cycle");
}

TEST(Schedule, EndsWhereItShould) {
  Schedule s{.kind = Schedule::Kind::kCosine, .peak = 1, .steps = 10, .warmup = 3, .floor = 0.1};
  EXPECT_EQ(LearningRate(s, 0), 0.25);
  EXPECT_EQ(LearningRate(s, 3), 1);
  EXPECT_NEAR(LearningRate(s, 10), 0.1, 1e-16);
  EXPECT_EQ(LearningRate(s, 1000), LearningRate(s, 10));
  s.kind = Schedule::Kind::kConstant;
  EXPECT_EQ(LearningRate(s, 1), 0.5);
  EXPECT_EQ(LearningRate(s, 9), 1);
  s.kind = Schedule::Kind::kOneCycle;
  EXPECT_NEAR(LearningRate(s, 0), 1.0 / 25, 2.3e-16);  // (1/25 − 1) + 1, rounded
  EXPECT_DOUBLE_EQ(LearningRate(s, 9), 1.0 / 25 / 1e4);
  EXPECT_EQ(LearningRate(s, 99), LearningRate(s, 9));
  // Rises that are shorter than a step, and a single step.
  for (const int64_t steps : {1, 2, 3, 4}) {
    s.steps = steps;
    for (int64_t step = 0; step < steps; ++step) {
      EXPECT_GT(LearningRate(s, step), 0) << steps;
      EXPECT_LE(LearningRate(s, step), 1) << steps;
    }
  }
}

TEST(Schedule, RefusesWhatIsNone) {
  using Kind = Schedule::Kind;
  EXPECT_THROW(Validate({.peak = 0}), Error);
  EXPECT_THROW(Validate({.peak = 1, .steps = 0}), Error);
  EXPECT_THROW(Validate({.peak = 1, .steps = 5, .warmup = 5}), Error);
  EXPECT_THROW(Validate({.peak = 1, .steps = 5, .floor = 2}), Error);
  EXPECT_THROW(Validate({.kind = Kind::kOneCycle, .peak = 1, .steps = 5, .rise = 1.5}), Error);
  EXPECT_THROW(Validate({.kind = Kind::kOneCycle, .peak = 1, .steps = 5, .start_divisor = 0.5}), Error);
  EXPECT_NO_THROW(Validate({.kind = Kind::kOneCycle, .peak = 1, .steps = 5}));
}

TEST(Schedule, FallsWithTheSquareRootOfTheSteps) {
  const Schedule schedule{.kind = Schedule::Kind::kInverseSqrt, .peak = 0.1, .steps = 100, .warmup = 3};
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 0), 0.025);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 3), 0.1);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 15), 0.05);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 63), 0.025);
  EXPECT_EQ(LearningRate(schedule, 100), LearningRate(schedule, 1000));
}

}  // namespace
}  // namespace qkv::train
