// The accuracy table of qkv/simd/math-inl.h: activations against libm in double precision, over floats spread evenly in
// their bits.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "qkv/simd/rows/elementwise.h"
#include "qkv/simd/rows/reference.h"
#include "tests/support/isas.h"
#include "tests/support/tolerance.h"

namespace qkv::simd {
namespace {

class MathTest : public IsaTest {};
QKV_FOR_ALL_ISAS(MathTest);

// Every 397th float: all exponents, 21000 significands each, both signs, infinities and NaNs.
std::vector<float> Samples() {
  std::vector<float> samples;
  for (uint64_t bits = 0; bits <= 0xFFFFFFFFu; bits += 397) {
    samples.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  return samples;
}
const std::vector<float>& AllSamples() {
  static const std::vector<float> samples = Samples();
  return samples;
}

struct Worst {
  double error = 0;
  float x = 0;
};

// The greatest error of an activation over the samples within [low, high].
Worst Measure(Activation activation, float low, float high, const std::function<double(float, float, double)>& error) {
  const auto& x = AllSamples();
  std::vector<float> y(x.size());
  Activate(activation, x.data(), y.data(), static_cast<int64_t>(x.size()));
  Worst worst;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!(x[i] >= low && x[i] <= high)) continue;
    const double e = error(x[i], y[i], reference::Activate(activation, x[i]));
    if (!(e <= worst.error)) worst = {e, x[i]};
  }
  return worst;
}

double Ulps(float, float got, double exact) { return UlpError(got, exact); }
// In units of |x| · 2^-24: what a layer that adds up many of them notices.
double RelativeToInput(float x, float got, double exact) {
  if (x == 0) return got == 0 ? 0 : 1e9;
  return std::abs(got - exact) / (std::abs(static_cast<double>(x)) * UnitRoundoff<float>() + 1e-45);
}

constexpr float kMax = std::numeric_limits<float>::max();

TEST_P(MathTest, Tanh) {
  const Worst worst = Measure(Activation::kTanh, -kMax, kMax, Ulps);
  RecordProperty("ulp", std::to_string(worst.error));
  EXPECT_LE(worst.error, 1.5) << "at " << worst.x;
}

TEST_P(MathTest, Silu) {
  // Below −87 the exponential overflows or the result is subnormal: small, but not to the last digit.
  const Worst worst = Measure(Activation::kSilu, -87, kMax, Ulps);
  RecordProperty("ulp", std::to_string(worst.error));
  EXPECT_LE(worst.error, 2.6) << "at " << worst.x;
  const Worst tail =
      Measure(Activation::kSilu, -kMax, -87, [](float, float got, double exact) { return std::abs(got - exact); });
  EXPECT_LE(tail.error, 1.5e-36) << "at " << tail.x;
}

TEST_P(MathTest, Gelu) {
  const Worst worst = Measure(Activation::kGelu, -kMax, kMax, RelativeToInput);
  RecordProperty("units", std::to_string(worst.error));
  EXPECT_LE(worst.error, 1.75) << "at " << worst.x;
  // Positive results are right to the last digits as such.
  EXPECT_LE(Measure(Activation::kGelu, 0, kMax, Ulps).error, 2.5);
}

TEST_P(MathTest, GeluTanhAndQuickGelu) {
  for (const Activation activation : {Activation::kGeluTanh, Activation::kQuickGelu}) {
    // x³ overflows beyond 1e12; there both are 0 or x.
    const Worst worst = Measure(activation, -1e12f, 1e12f, RelativeToInput);
    RecordProperty(activation == Activation::kGeluTanh ? "gelu_tanh" : "quick_gelu", std::to_string(worst.error));
    EXPECT_LE(worst.error, 2.6) << "at " << worst.x;
  }
}

TEST_P(MathTest, Relu) {
  EXPECT_EQ(
      Measure(Activation::kRelu, -kMax, kMax, [](float, float got, double exact) { return std::abs(got - exact); })
          .error,
      0);
}

TEST_P(MathTest, LimitsAndNaN) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const Activation activation :
       {Activation::kNone, Activation::kGelu, Activation::kGeluTanh, Activation::kQuickGelu, Activation::kRelu,
        Activation::kSilu, Activation::kTanh}) {
    const float x[] = {kInfinity, std::numeric_limits<float>::quiet_NaN(), -0.0f, -1e30f, 1e30f};
    float y[5];
    Activate(activation, x, y, 5);
    const bool tanh = activation == Activation::kTanh, none = activation == Activation::kNone;
    EXPECT_EQ(y[0], tanh ? 1 : kInfinity);
    EXPECT_TRUE(std::isnan(y[1])) << static_cast<int>(activation);
    EXPECT_EQ(y[2], 0);
    EXPECT_NEAR(y[3], tanh ? -1 : (none ? -1e30f : 0), 1e-6);
    EXPECT_EQ(y[4], tanh ? 1 : 1e30f);
  }
}

}  // namespace
}  // namespace qkv::simd
