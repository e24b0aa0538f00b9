// The optimiser's loops against their double-precision selves, for every length of a tail.
#include "qkv/simd/rows/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "tests/support/isas.h"
#include "tests/support/sampler.h"
#include "tests/support/tolerance.h"

namespace qkv::simd {
namespace {

class OptimizerLoopsTest : public IsaTest {};
QKV_FOR_ALL_ISAS(OptimizerLoopsTest);

constexpr int64_t kLengths = 70;  // 0…2N for vectors of up to 16, unrolled four times, and a tail
constexpr float kGuard = 12345;

// `n` random numbers of these sizes, one place off alignment, with a guard behind.
struct Buffer {
  Buffer(uint64_t seed, int64_t n, bool positive = false) : data(Sampler(seed).Normal<float>({n + 2})) {
    if (positive) {
      for (float& x : data.span()) x *= x;
    }
    data[n + 1] = kGuard;
    exact = Cast<double>(data);
  }
  float* fast() { return data.data() + 1; }
  double* slow() { return exact.data() + 1; }
  /// Within so many roundings of `magnitude(i)`.
  void ExpectNear(int64_t n, double roundings, const std::function<double(int64_t)>& magnitude) {
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_NEAR(fast()[i], slow()[i], roundings * UnitRoundoff<float>() * magnitude(i)) << i << " of " << n;
    }
    ASSERT_EQ(data[n + 1], kGuard) << "wrote past the end of " << n;
  }

  Tensor<float> data;
  Tensor<double> exact;
};

// The same factors, as they are rounded to float.
AdamWFactors<double> Widen(const AdamWFactors<float>& f) {
  return {f.gradient, f.rate1, f.beta2, f.rate2, f.keep, f.step, f.root_correction, f.eps};
}
SgdFactors<double> Widen(const SgdFactors<float>& f) {
  return {f.gradient, f.decay, f.momentum, f.learning_rate, f.nesterov};
}

TEST_P(OptimizerLoopsTest, AdamW) {
  const AdamWFactors<float> f{0.7f, 0.1f, 0.98f, 0.02f, 0.995f, 0.03f, 0.3f, 1e-3f};
  for (int64_t n = 0; n <= kLengths; ++n) {
    Buffer g(1, n), m(2, n), v(3, n, true), w(4, n);
    const Tensor<double> before_m = m.exact.Clone(), before_w = w.exact.Clone();
    AdamW(f, g.fast(), m.fast(), v.fast(), w.fast(), n);
    AdamW(Widen(f), g.slow(), m.slow(), v.slow(), w.slow(), n);
    const auto size_m = [&](int64_t i) { return std::abs(before_m[i + 1]) + std::abs(g.slow()[i]); };
    m.ExpectNear(n, 4, size_m);
    v.ExpectNear(n, 4, [&](int64_t i) { return v.slow()[i]; });
    w.ExpectNear(n, 4, [&](int64_t i) {
      // The step has the moment's error and a few of its own: half of v's, and those of five operations.
      const double per_moment = f.step / (std::sqrt(v.slow()[i]) / f.root_correction + f.eps);
      return std::abs(before_w[i + 1]) + 3 * per_moment * size_m(i);
    });
  }
}

TEST_P(OptimizerLoopsTest, Sgd) {
  for (const bool nesterov : {false, true}) {
    const SgdFactors<float> f{0.7f, 0.25f, 0.9f, 0.125f, nesterov};
    for (int64_t n = 0; n <= kLengths; ++n) {
      Buffer g(1, n), m(2, n), w(4, n);
      const Tensor<double> before_m = m.exact.Clone(), before_w = w.exact.Clone();
      Sgd(f, g.fast(), m.fast(), w.fast(), n);
      Sgd(Widen(f), g.slow(), m.slow(), w.slow(), n);
      const auto size = [&](int64_t i) {
        return std::abs(before_m[i + 1]) + std::abs(g.slow()[i]) + std::abs(before_w[i + 1]);
      };
      m.ExpectNear(n, 4, size);
      w.ExpectNear(n, 4, size);
    }
  }
}

TEST_P(OptimizerLoopsTest, AveragesAndSums) {
  for (int64_t n = 0; n <= kLengths; ++n) {
    Buffer w(1, n), average(2, n), sum(3, n);
    const Tensor<double> before = average.exact.Clone();
    UpdateAverage(0.3f, w.fast(), average.fast(), n);
    UpdateAverage(static_cast<double>(0.3f), w.slow(), average.slow(), n);
    average.ExpectNear(n, 3, [&](int64_t i) { return std::abs(w.slow()[i]) + std::abs(before[i + 1]); });
    AddTo(w.fast(), sum.fast(), n);
    AddTo(w.slow(), sum.slow(), n);
    sum.ExpectNear(n, 1, [&](int64_t i) { return std::abs(sum.slow()[i]); });
    // Products of floats are exact in double.
    const double exact = SumOfSquares(w.slow(), n);
    EXPECT_NEAR(SumOfSquares(w.fast(), n), exact, DotTolerance<double>(n, exact)) << n;
  }
}

TEST_P(OptimizerLoopsTest, AverageOfRateOneIsTheWeight) {
  Buffer w(1, 37);
  std::vector<float> average(37, 0);
  UpdateAverage(1.0f, w.fast(), average.data(), 37);
  for (size_t i = 0; i < 37; ++i) EXPECT_EQ(average[i], w.fast()[i]);
}

TEST_P(OptimizerLoopsTest, SumOfSquaresKeepsSmallOnes) {
  // In float the ones would be lost behind the first square.
  std::vector<float> x(100001, 1);
  x[0] = 1e5f;
  EXPECT_EQ(SumOfSquares(x.data(), 100001), 1e10 + 1e5);
}

// Nothing comes of nothing: padding stays zero.
TEST_P(OptimizerLoopsTest, ZerosStay) {
  std::vector<float> g(21, 0), m(21, 0), v(21, 0), w(21, 0);
  AdamW<float>({.rate1 = 0.1f, .beta2 = 0.9f, .rate2 = 0.1f, .step = 1, .root_correction = 0.3f, .eps = 1e-8f},
               g.data(), m.data(), v.data(), w.data(), 21);
  Sgd<float>({.decay = 0.1f, .momentum = 0.9f, .learning_rate = 1}, g.data(), m.data(), w.data(), 21);
  for (const float x : w) EXPECT_EQ(x, 0);
}

}  // namespace
}  // namespace qkv::simd
