// All orders give the same scores and outputs up to rounding.
#include "qkv/lab/plan_trial.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/support/isas.h"
#include "tests/support/tolerance.h"

namespace qkv::lab {
namespace {

using attention::Cached, attention::Order, attention::Plan, attention::Read, attention::Workload, attention::kOrders;

class PlanRunTest : public IsaTest {};
QKV_FOR_ALL_ISAS(PlanRunTest);

template <typename T>
std::vector<double> Copied(View<const T> view) {
  if (view.rank() == 3) return {view.data(), view.data() + view.size()};
  std::vector<double> all;
  for (int64_t b = 0; b < view.dim(0); ++b) {
    for (int64_t h = 0; h < view.dim(1); ++h) {
      for (int64_t i = 0; i < view.dim(2); ++i) all.insert(all.end(), view.at(b, h, i), view.at(b, h, i) + view.dim(3));
    }
  }
  return all;
}

// Entries of tokens, weights and all products are about one in size: the weights are scaled so. A chain of three
// products rounds each entry by at most some eps times the square root of what is summed, and softmax passes the
// scores' errors on, twice at most.
template <typename T>
double Tolerance(const Workload& w, double greatest) {
  const auto terms = w.width + w.head_width + w.values() + w.keys + w.source();
  return 3 * DotTolerance<T>(terms, std::sqrt(static_cast<double>(terms)) * std::max(1.0, greatest));
}

template <typename T>
void CheckAllOrders(const Workload& w) {
  Trial<T> trial(w);
  trial.Prepare({});
  const std::vector<double> expected = Copied<T>(trial.Run({}));
  double greatest = 0;
  for (const double x : expected) greatest = std::max(greatest, std::abs(x));
  ASSERT_GT(greatest, 0.01);
  for (const Order scores : kOrders) {
    for (const Order outputs : kOrders) {
      const Plan plan{scores, outputs};
      if (!CanScore(scores, w) || !CanSum(outputs, w)) continue;
      if (w.read == Read::kScores && outputs != Order::kProjected) continue;
      trial.Prepare(plan);
      const std::vector<double> got = Copied<T>(trial.Run(plan));
      ASSERT_EQ(got.size(), expected.size());
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], expected[i], Tolerance<T>(w, greatest))
            << Name(scores) << ", " << Name(outputs) << " m " << w.queries << " N " << w.keys << " H " << w.heads
            << " B " << w.batch << " cached " << static_cast<int>(w.cached) << " at " << i;
      }
    }
  }
}

TEST_P(PlanRunTest, AllOrdersAgree) {
  for (const Read read : {Read::kScores, Read::kOutputs}) {
    for (const int64_t m : {1, 3, 20}) {
      for (const int64_t H : {1, 3}) {
        for (const int64_t B : {1, 2}) {
          Workload w{.queries = m, .keys = 20, .width = 24, .heads = H, .head_width = 8, .value_width = 12, .batch = B};
          w.read = read;
          CheckAllOrders<double>(w);
          CheckAllOrders<float>(w);
          w.cached = Cached::kLatent, w.latent = 10;
          CheckAllOrders<double>(w);
          w.cached = Cached::kKeysAndValues;
          CheckAllOrders<double>(w);
          w.cached = Cached::kTokens, w.projection = false;
          CheckAllOrders<double>(w);
          w.projection = true, w.keys = 2;
          CheckAllOrders<double>(w);
        }
      }
    }
  }
}

}  // namespace
}  // namespace qkv::lab
