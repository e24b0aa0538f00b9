// Student's t against the tables of the field, intervals against numbers by hand and against their own promise.
#include "qkv/lab/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/core/rng.h"

namespace qkv::lab {
namespace {

TEST(StudentT, IsThatOfTheTables) {
  // scipy.stats.t.ppf((1 + p) / 2, df)
  EXPECT_NEAR(StudentT(0.95, 1), 12.706204736174694, 1e-9);
  EXPECT_NEAR(StudentT(0.95, 2), 4.302652729749462, 1e-9);
  EXPECT_NEAR(StudentT(0.95, 4), 2.7764451051977934, 1e-9);
  EXPECT_NEAR(StudentT(0.95, 30), 2.0422724563012378, 1e-9);
  EXPECT_NEAR(StudentT(0.99, 9), 3.24983554159213, 1e-9);
  EXPECT_NEAR(StudentT(0.5, 3), 0.7648923284043458, 1e-9);
  EXPECT_NEAR(StudentT(0.95, 1000000), 1.9599663, 1e-6);
  EXPECT_THROW(StudentT(0.95, 0), Error);
  EXPECT_THROW(StudentT(1, 3), Error);
}

TEST(MeanInterval, IsTheFormula) {
  const Interval of_three = MeanInterval(std::vector<double>{1, 2, 6});
  EXPECT_DOUBLE_EQ(of_three.mean, 3);
  EXPECT_NEAR(of_three.half, 4.302652729749462 * std::sqrt(7.0 / 3), 1e-9);  // variance 14 / 2
  const Interval of_one = MeanInterval(std::vector<double>{5});
  EXPECT_EQ(of_one.mean, 5);
  EXPECT_TRUE(std::isinf(of_one.half));
  EXPECT_TRUE(std::isnan(MeanInterval({}).mean));
  EXPECT_EQ(MeanInterval(std::vector<double>{4, 4, 4}).half, 0);
}

TEST(MeanInterval, HoldsTheMeanNineteenTimesInTwenty) {
  Rng rng(1);
  int held = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    std::vector<double> values(5);
    for (double& x : values) x = 3 + 2 * rng.Normal();
    const Interval interval = MeanInterval(values);
    held += std::abs(interval.mean - 3) <= interval.half;
  }
  EXPECT_NEAR(held, 3800, 69);  // binomial: five standard deviations
}

TEST(PairedInterval, WhatIsSharedFallsOut) {
  const std::vector<double> seeds = {10, 50, 90}, more = {11, 51, 91.5};
  const Interval interval = PairedInterval(more, seeds);
  EXPECT_NEAR(interval.mean, 3.5 / 3, 1e-12);
  EXPECT_LT(interval.half, 1);
  EXPECT_THROW(PairedInterval(more, std::vector<double>{1}), Error);
}

}  // namespace
}  // namespace qkv::lab
