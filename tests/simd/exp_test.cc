// The exponentials of qkv/simd/math-inl.h themselves, against libm in the next wider type.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "qkv/simd/isa.h"
#include "qkv/simd/targets.h"
#include "tests/support/isas.h"
#include "tests/support/tolerance.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/simd/exp_test.cc"
#include "hwy/foreach_target.h"
//
#include "qkv/simd/dispatch.h"
#include "qkv/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {

void ExpForTest(const float* x, float* y, size_t n) {
  const hn::ScalableTag<float> d;
  for (size_t i = 0; i < n; i += hn::Lanes(d)) {
    const size_t some = std::min(n - i, hn::Lanes(d));
    StoreSome(d, Exp(d, LoadSome(d, x + i, some)), y + i, some);
  }
}
void Exp2ForTest(const float* x, float* y, size_t n) {
  const hn::ScalableTag<float> d;
  for (size_t i = 0; i < n; i += hn::Lanes(d)) {
    const size_t some = std::min(n - i, hn::Lanes(d));
    StoreSome(d, Exp2Flushed(d, LoadSome(d, x + i, some)), y + i, some);
  }
}
void Exp2DoubleForTest(const double* x, double* y, size_t n) {
  const hn::ScalableTag<double> d;
  for (size_t i = 0; i < n; i += hn::Lanes(d)) {
    const size_t some = std::min(n - i, hn::Lanes(d));
    StoreSome(d, Exp2Flushed(d, LoadSome(d, x + i, some)), y + i, some);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::simd {
namespace {

HWY_EXPORT(ExpForTest);
HWY_EXPORT(Exp2ForTest);
HWY_EXPORT(Exp2DoubleForTest);

class ExpTest : public IsaTest {};
QKV_FOR_ALL_ISAS(ExpTest);

// Floats of [low, high], every `step`th bit pattern.
std::vector<float> Floats(float low, float high, uint64_t step) {
  std::vector<float> samples{0.0f, -0.0f, low, high};
  for (uint64_t bits = 0; bits <= 0xFFFFFFFFu; bits += step) {
    const auto x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (x >= low && x <= high) samples.push_back(x);
  }
  return samples;
}

TEST_P(ExpTest, Exp) {
  const auto x = Floats(-104, 89, 197);
  std::vector<float> y(x.size());
  QKV_DISPATCH(ExpForTest)(x.data(), y.data(), x.size());
  double worst = 0;
  float at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double error = UlpError(y[i], std::exp(static_cast<double>(x[i])));
    if (error > worst) worst = error, at = x[i];
  }
  RecordProperty("ulp", std::to_string(worst));
  // Half a unit for the last rounding, half for the sum before it, and the polynomial; subnormals round once more.
  EXPECT_LE(worst, 1.1) << "at " << at;
}

TEST_P(ExpTest, Exp2) {
  const auto x = Floats(-126, 1, 197);
  std::vector<float> y(x.size());
  QKV_DISPATCH(Exp2ForTest)(x.data(), y.data(), x.size());
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) worst = std::max(worst, UlpError(y[i], std::exp2(static_cast<double>(x[i]))));
  RecordProperty("ulp", std::to_string(worst));
  EXPECT_LE(worst, 1.1);
}

TEST_P(ExpTest, Exp2Double) {
  std::vector<double> x, y;
  for (double v = -1021; v < 1; v += 0.00137) x.push_back(v);
  y.resize(x.size());
  QKV_DISPATCH(Exp2DoubleForTest)(x.data(), y.data(), x.size());
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const long double exact = std::exp2(static_cast<long double>(x[i]));
    worst = std::max(worst, static_cast<double>(std::abs(y[i] - exact) / exact) / (2 * UnitRoundoff<double>()));
  }
  RecordProperty("ulp", std::to_string(worst));
  EXPECT_LE(worst, 1.1);
}

TEST_P(ExpTest, Limits) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float x[] = {-kInfinity, -1e30f, -127, -150, std::numeric_limits<float>::quiet_NaN(), 0, 1};
  float y[7];
  QKV_DISPATCH(Exp2ForTest)(x, y, 7);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(y[i], 0) << x[i];
  EXPECT_TRUE(std::isnan(y[4]));
  EXPECT_EQ(y[5], 1);
  EXPECT_EQ(y[6], 2);
  const float z[] = {-kInfinity, kInfinity, 1e30f, -1e30f, std::numeric_limits<float>::quiet_NaN(), 0};
  QKV_DISPATCH(ExpForTest)(z, y, 6);
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], kInfinity);
  EXPECT_EQ(y[2], kInfinity);
  EXPECT_EQ(y[3], 0);
  EXPECT_TRUE(std::isnan(y[4]));
  EXPECT_EQ(y[5], 1);
  const double wide[] = {-std::numeric_limits<double>::infinity(), -5000, 0, std::nan("")};
  double w[4];
  QKV_DISPATCH(Exp2DoubleForTest)(wide, w, 4);
  EXPECT_EQ(w[0], 0);
  EXPECT_EQ(w[1], 0);
  EXPECT_EQ(w[2], 1);
  EXPECT_TRUE(std::isnan(w[3]));
}

}  // namespace
}  // namespace qkv::simd
#endif  // HWY_ONCE
