#include "qkv/simd/rows/log_sum_exp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "qkv/core/rng.h"
#include "tests/support/isas.h"

namespace qkv::simd {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

double Exact(const std::vector<float>& x) {
  const double max = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (const float value : x) sum += std::exp(value - max);
  return max + std::log(sum);
}

class LogSumExpIsas : public IsaTest {};
QKV_FOR_ALL_ISAS(LogSumExpIsas);

TEST_P(LogSumExpIsas, EqualsTheReferenceAtEveryLength) {
  Rng rng(1);
  for (const int64_t n : {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 65, 1023, 1024, 1025, 60000}) {
    std::vector<float> x(static_cast<size_t>(n));
    for (float& value : x) value = static_cast<float>(5 * rng.Normal());
    if (n > 4) x[static_cast<size_t>(n / 2)] = -kInfinity;
    const double exact = Exact(x);
    // The greatest, the logarithm and their sum are rounded once each.
    EXPECT_NEAR(LogSumExp(x.data(), n), exact, 2e-7 * (1 + std::abs(exact))) << n;
  }
}

TEST_P(LogSumExpIsas, ExcludedAndFarEntries) {
  const std::vector<float> none(20, -kInfinity), far{-1e30f, 3e38f, 0};
  EXPECT_EQ(LogSumExp(none.data(), 20), -kInfinity);
  EXPECT_EQ(LogSumExp(none.data(), 0), -kInfinity);
  EXPECT_EQ(LogSumExp(far.data(), 3), 3e38f);
}

}  // namespace
}  // namespace qkv::simd
