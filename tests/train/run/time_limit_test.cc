#include "qkv/train/run/time_limit.h"

#include <gtest/gtest.h>

#include "qkv/core/error.h"

namespace qkv::train {
namespace {

// What so many steps take, counted one at a time: evaluations every `between` steps and at the end.
double Seconds(int64_t steps, const Pace& pace) {
  double seconds = 0;
  for (int64_t step = 1; step <= steps; ++step) {
    seconds += pace.step + (step == steps || step % pace.between == 0 ? pace.evaluation : 0);
  }
  return seconds;
}

TEST(CountStepsWithin, IsTheMostThatFit) {
  for (const Pace& pace : {Pace{0.5, 0, 10}, Pace{0.5, 2, 10}, Pace{0.25, 16, 3}, Pace{2, 0.5, 1}}) {
    for (const double seconds : {0.125, 7.375, 19.0, 60.0, 301.5}) {
      const int64_t steps = CountStepsWithin(seconds, pace);
      EXPECT_LE(Seconds(steps, pace), seconds) << seconds;
      EXPECT_GT(Seconds(steps + 1, pace), seconds) << seconds;
    }
  }
}

TEST(CountStepsWithin, IsNoneWithoutTimeAndNotMoreThanARunMayHave) {
  EXPECT_EQ(CountStepsWithin(-3, {1, 1, 1}), 0);
  EXPECT_EQ(CountStepsWithin(1e300, {1e-9, 0, 1}), int64_t{1} << 40);
  EXPECT_THROW(CountStepsWithin(1, {0, 0, 1}), Error);
}

}  // namespace
}  // namespace qkv::train
