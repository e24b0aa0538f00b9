// Slopes of the activations, gates and dropout, against the double-precision oracle and differences of it.
#include "qkv/simd/rows/elementwise_backward.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "qkv/core/dropout_hash.h"
#include "qkv/core/rng.h"
#include "qkv/simd/rows/reference.h"
#include "tests/support/isas.h"
#include "tests/support/sampler.h"
#include "tests/support/tolerance.h"

namespace qkv::simd {
namespace {

class ElementwiseGradientTest : public IsaTest {};
QKV_FOR_ALL_ISAS(ElementwiseGradientTest);

constexpr int64_t kLongest = 2 * 16 + 1;  // past two of the widest vectors
constexpr Activation kActivations[] = {Activation::kNone,      Activation::kGelu, Activation::kGeluTanh,
                                       Activation::kQuickGelu, Activation::kRelu, Activation::kSilu,
                                       Activation::kTanh};

// A slope is the sum of two terms of order one, each some three roundings off.
constexpr double kSlopeError = 6 * UnitRoundoff<float>();

// The oracle's own slopes are what its values have.
TEST(ReferenceSlope, EqualsDifferences) {
  constexpr double kStep = 0x1p-12;
  for (const Activation activation : kActivations) {
    for (double x = -9.01; x < 9; x += 0.37) {  // never within a step of the kink at 0
      const auto at = [&](double step) { return reference::Activate(activation, x + step); };
      const double difference = (8 * (at(kStep) - at(-kStep)) - (at(2 * kStep) - at(-2 * kStep))) / (12 * kStep);
      EXPECT_NEAR(reference::ActivationSlope(activation, x), difference, 1e-10) << static_cast<int>(activation) << x;
    }
  }
}

TEST_P(ElementwiseGradientTest, SlopesOverAllMagnitudes) {
  std::vector<float> x;
  for (uint32_t bits = 0; bits < 0x7F800000u; bits += 80021) {  // finite numbers of both signs
    x.push_back(std::bit_cast<float>(bits)), x.push_back(-x.back());
  }
  for (float dense = -14; dense < 14; dense += 0.00117f) x.push_back(dense);
  const auto n = static_cast<int64_t>(x.size());
  const std::vector<float> ones(x.size(), 1.0f);
  std::vector<float> dx(x.size()), y(x.size());
  for (const Activation activation : kActivations) {
    ActivateGradient(activation, x.data(), ones.data(), dx.data(), n, y.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = reference::ActivationSlope(activation, x[i]);
      // Where the oracle multiplies infinity by 0, the slope has long reached its limit.
      const double limit = std::isfinite(exact) ? exact : x[i] > 0 ? 1 : 0;
      ASSERT_NEAR(dx[i], limit, kSlopeError) << static_cast<int>(activation) << " at " << x[i];
      ASSERT_NEAR(y[i], reference::Activate(activation, x[i]),
                  4 * UnitRoundoff<float>() * std::abs(x[i]) + std::numeric_limits<float>::denorm_min())
          << static_cast<int>(activation) << " at " << x[i];
    }
  }
}

// f(n, offset) for all lengths up to two vectors and some misalignments.
template <class F>
void Sweep(F f) {
  for (int64_t n = 0; n <= kLongest; ++n) {
    for (int64_t offset = 0; offset < 16; offset += 5) f(n, offset);
  }
}

TEST_P(ElementwiseGradientTest, LengthsMisalignmentsAndPlaces) {
  const auto x = Sampler(1).Normal<float>({kLongest + 16}, 0, 3), dy = Sampler(2).Normal<float>({kLongest + 16});
  for (const Activation activation : kActivations) {
    Sweep([&](int64_t n, int64_t offset) {
      std::vector<float> dx(kLongest + 32, -77.f), y = dx, in_place(x.data(), x.data() + x.size()),
                                                   over(dy.data(), dy.data() + dy.size()), without = dx;
      ActivateGradient(activation, x.data() + offset, dy.data() + offset, dx.data() + 1 + offset, n,
                       y.data() + 1 + offset);
      ActivateGradient(activation, x.data() + offset, dy.data() + offset, without.data() + 1 + offset, n);
      // As the MLP does: the gradient takes the place of x, the value that of the gradient that came.
      ActivateGradient(activation, in_place.data() + offset, over.data() + offset, in_place.data() + offset, n,
                       over.data() + offset);
      for (int64_t i = 0; i < n; ++i) {
        const float got = dx[1 + offset + i], value = y[1 + offset + i];
        ASSERT_NEAR(got, dy[offset + i] * reference::ActivationSlope(activation, x[offset + i]),
                    (kSlopeError + 2 * UnitRoundoff<float>()) * std::abs(dy[offset + i]));
        ASSERT_EQ(in_place[offset + i], got);
        ASSERT_EQ(without[1 + offset + i], got);
        ASSERT_EQ(over[offset + i], value);
        float alone, alone_y;
        ActivateGradient(activation, x.data() + offset + i, dy.data() + offset + i, &alone, 1, &alone_y);
        ASSERT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(alone)) << "depends on its place";
        ASSERT_EQ(std::bit_cast<uint32_t>(value), std::bit_cast<uint32_t>(alone_y)) << "depends on its place";
      }
      for (const auto* out : {&dx, &y, &without}) {
        ASSERT_EQ((*out)[offset], -77.f) << "wrote before the start";
        ASSERT_EQ((*out)[1 + offset + n], -77.f) << "wrote past the end";
      }
    });
  }
}

TEST_P(ElementwiseGradientTest, Gates) {
  const auto gate = Sampler(1).Normal<float>({kLongest + 16}, 0, 3), value = Sampler(2).Normal<float>({kLongest + 16}),
             dy = Sampler(3).Normal<float>({kLongest + 16});
  for (const Activation activation : kActivations) {
    Sweep([&](int64_t n, int64_t offset) {
      const float *g = gate.data() + offset, *v = value.data() + offset, *gradient = dy.data() + offset;
      std::vector<float> y(kLongest + 1, -77.f), dgate(g, g + n + 1), dvalue(v, v + n + 1),
          y_again(gradient, gradient + n + 1);
      ApplyGate(activation, g, v, y.data(), n);
      // In place, as the MLP does.
      GateGradient(activation, dgate.data(), dvalue.data(), y_again.data(), dgate.data(), dvalue.data(), n,
                   y_again.data());
      for (int64_t i = 0; i < n; ++i) {
        const double activated = reference::Activate(activation, g[i]), u = UnitRoundoff<float>();
        const double error = 4 * u * std::abs(g[i]);  // of the activation
        ASSERT_NEAR(y[i], activated * v[i], (error + 2 * u * std::abs(activated)) * std::abs(v[i]));
        ASSERT_NEAR(y_again[i], activated * v[i], (error + 2 * u * std::abs(activated)) * std::abs(v[i]));
        ASSERT_NEAR(dvalue[i], activated * gradient[i], (error + 2 * u * std::abs(activated)) * std::abs(gradient[i]));
        ASSERT_NEAR(dgate[i], gradient[i] * v[i] * reference::ActivationSlope(activation, g[i]),
                    (kSlopeError + 3 * u) * std::abs(gradient[i] * v[i]));
      }
      ASSERT_EQ(y[n], -77.f) << "wrote past the end";
      ASSERT_EQ(dgate[n], g[n]) << "wrote past the end";
      ASSERT_EQ(dvalue[n], v[n]) << "wrote past the end";
    });
  }
}

TEST_P(ElementwiseGradientTest, NanSpreads) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), one = 1;
  for (const Activation activation : kActivations) {
    float dx, y;
    ActivateGradient(activation, &nan, &one, &dx, 1, &y);
    EXPECT_TRUE(std::isnan(y)) << static_cast<int>(activation);
    ActivateGradient(activation, &one, &nan, &dx, 1);
    EXPECT_TRUE(std::isnan(dx)) << static_cast<int>(activation);
  }
}

// Every lane draws as DropoutHash says, whatever its place in a vector; float and double drop the same entries.
TEST_P(ElementwiseGradientTest, DropoutIsTheHash) {
  for (const double probability : {0.0, 0.1, 0.5, 0.9}) {
    const int32_t below = DropoutThreshold(probability);
    for (int64_t n = 0; n <= 100; n += n < 40 ? 1 : 13) {
      const uint64_t row = MixSeed(5, static_cast<uint64_t>(n));
      const auto x = Sampler(3).Normal<float>({n + 1});
      auto got = x.Clone();
      auto wide = Cast<double>(x);
      DropEntries<float>(row, below, 1.5f, got.data(), n);
      DropEntries<double>(row, below, 1.5, wide.data(), n);
      for (int64_t i = 0; i < n; ++i) {
        const bool dropped = static_cast<int32_t>(DropoutHash::Of(row, static_cast<uint32_t>(i))) < below;
        ASSERT_EQ(got[i], dropped ? 0 : x[i] * 1.5f);
        ASSERT_EQ(wide[i], dropped ? 0 : x[i] * 1.5);
      }
      ASSERT_EQ(got[n], x[n]) << "wrote past the end";
    }
  }
}

}  // namespace
}  // namespace qkv::simd
