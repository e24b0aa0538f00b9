#include "qkv/lab/plan_timing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace qkv::lab {
namespace {

using attention::Cached, attention::Order, attention::Plan, attention::Read, attention::Workload, attention::kOrders;

TEST(PlanTime, FitFindsThePrices) {
  Terms prices{};
  for (size_t i = 0; i < kTerms; ++i) prices[i] = i % 3 == 0 ? 0 : std::pow(10, -static_cast<double>(i % 4));
  Rng rng(1);
  std::vector<Terms> rows(60);
  std::vector<double> seconds;
  for (Terms& row : rows) {
    double sum = 0;
    for (size_t i = 0; i < kTerms; ++i) sum += prices[i] * (row[i] = rng.Uniform() * std::pow(100, i % 3));
    seconds.push_back(sum);
  }
  const Terms found = FitPrices(rows, seconds);
  // What is left of 3000 sweeps is far below what any machine repeats.
  for (size_t i = 0; i < kTerms; ++i) EXPECT_NEAR(found[i], prices[i], 1e-4 * std::max(prices[i], 1e-2)) << i;
}

// A term that never occurs has no price, and noise gives no negative one.
TEST(PlanTime, FitHasNoNegativePrices) {
  Rng rng(2);
  std::vector<Terms> rows(40);
  std::vector<double> seconds;
  for (Terms& row : rows) {
    for (size_t i = 1; i < kTerms; ++i) row[i] = rng.Uniform();
    seconds.push_back(0.1 + rng.Uniform());
  }
  const Terms found = FitPrices(rows, seconds);
  EXPECT_EQ(found[0], 0);
  for (const double price : found) EXPECT_GE(price, 0);
  EXPECT_GT(*std::max_element(found.begin(), found.end()), 0);
}

// With a price on multiply-adds alone, and full tiles, the fastest plan is the cheapest.
TEST(PlanTime, FastestIsCheapestWhereOnlyMultiplyAddsCost) {
  Costs costs{.memory = 1e300, .cached_bytes = 1e300};
  for (const Term term : {Term::kProduct, Term::kScore, Term::kAttention}) costs.seconds[static_cast<size_t>(term)] = 1;
  for (const int64_t m : {64, 640}) {
    for (const int64_t E : {64, 512, 768}) {
      for (const Read read : {Read::kScores, Read::kOutputs}) {
        const Workload w{.queries = m, .keys = 640, .width = 768, .heads = 768 / E, .head_width = E, .read = read};
        EXPECT_EQ(FastestPlan<float>(w, costs), CheapestPlan(w)) << m << " rows, E " << E;
        EXPECT_EQ(PredictSeconds<float>(CheapestPlan(w), w, costs), MultiplyAdds(CheapestPlan(w), w));
      }
    }
  }
}

// Bytes count where they are more than the caches hold.
TEST(PlanTime, MemoryBoundsFromBelow) {
  const Workload w{.queries = 1, .keys = 1000, .width = 512, .heads = 8, .head_width = 64};
  Costs costs{.memory = 1e6, .cached_bytes = 1e9};
  costs.seconds[static_cast<size_t>(Term::kProduct)] = 1e-12;
  EXPECT_LT(PredictSeconds<float>({}, w, costs), 1);
  costs.cached_bytes = 1000;
  EXPECT_DOUBLE_EQ(PredictSeconds<float>({}, w, costs), (Bytes({}, w, 4) - 1000) / 1e6);
}

TEST(PlanTime, WorkloadsAreDrawnWithinTheirLimits) {
  Rng rng(3);
  int latents = 0, rows = 0;
  for (int i = 0; i < 300; ++i) {
    const Workload w = RandomWorkload(rng, 1e7);
    EXPECT_LE(MultiplyAdds(CheapestPlan(w), w), 1e7);
    EXPECT_FALSE(PossiblePlans(w).empty());
    latents += w.cached == Cached::kLatent;
    rows += w.queries < w.keys;
  }
  EXPECT_GT(latents, 10);
  EXPECT_GT(rows, 50);
}

// Prices are positive where a machine has any, and say that ten times the work takes longer.
TEST(PlanTime, MeasuredCostsAreOfThisWorld) {
  const Costs costs = MeasureCosts<float>();
  EXPECT_EQ(costs.element, 4);
  EXPECT_GT(costs.memory, 1e6);
  const Workload small{.queries = 64, .keys = 64, .width = 64, .heads = 4, .head_width = 16},
      large{.queries = 640, .keys = 640, .width = 640, .heads = 10, .head_width = 64};
  EXPECT_GT(PredictSeconds<float>({}, small, costs), 0);
  EXPECT_GT(PredictSeconds<float>({}, large, costs), PredictSeconds<float>({}, small, costs));
}

}  // namespace
}  // namespace qkv::lab
