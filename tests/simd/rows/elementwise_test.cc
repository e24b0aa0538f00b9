#include "qkv/simd/rows/elementwise.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "qkv/simd/rows/reference.h"
#include "tests/support/isas.h"
#include "tests/support/sampler.h"
#include "tests/support/tolerance.h"

namespace qkv::simd {
namespace {

class ElementwiseTest : public IsaTest {};
QKV_FOR_ALL_ISAS(ElementwiseTest);

constexpr int64_t kLongest = 2 * 16 + 1;  // past two of the widest vectors
constexpr Activation kActivations[] = {Activation::kNone,      Activation::kGelu, Activation::kGeluTanh,
                                       Activation::kQuickGelu, Activation::kRelu, Activation::kSilu,
                                       Activation::kTanh};

// f(n, offset) for all lengths up to two vectors and all misalignments.
template <class F>
void Sweep(F f) {
  for (int64_t n = 0; n <= kLongest; ++n) {
    for (int64_t offset = 0; offset < 16; offset += n < 20 ? 1 : 5) f(n, offset);
  }
}

TEST_P(ElementwiseTest, ActivationsOverLengthsAndMisalignments) {
  const auto x = Sampler(1).Normal<float>({kLongest + 16}, 0, 3);
  for (const Activation activation : kActivations) {
    Sweep([&](int64_t n, int64_t offset) {
      std::vector<float> y(kLongest + 32, -77.f);
      Activate(activation, x.data() + offset, y.data() + 1 + offset, n);
      for (int64_t i = 0; i < n; ++i) {
        const double exact = reference::Activate(activation, x[offset + i]);
        ASSERT_NEAR(y[1 + offset + i], exact, 4 * UnitRoundoff<float>() * std::abs(x[offset + i]));
        float alone;
        Activate(activation, x.data() + offset + i, &alone, 1);
        ASSERT_EQ(std::bit_cast<uint32_t>(y[1 + offset + i]), std::bit_cast<uint32_t>(alone)) << "depends on its place";
      }
      ASSERT_EQ(y[offset], -77.f) << "wrote before the start";
      ASSERT_EQ(y[1 + offset + n], -77.f) << "wrote past the end";
    });
  }
}

TEST_P(ElementwiseTest, InPlaceAndDouble) {
  const auto x = Sampler(2).Normal<double>({100}, 0, 3);
  for (const Activation activation : kActivations) {
    auto in_place = x.Clone();
    Activate(activation, in_place.data(), in_place.data(), 100);
    for (int64_t i = 0; i < 100; ++i) ASSERT_EQ(in_place[i], reference::Activate(activation, x[i]));
    auto single = Cast<float>(x), out = Cast<float>(x);
    Activate(activation, single.data(), out.data(), 100);
    Activate(activation, single.data(), single.data(), 100);
    for (int64_t i = 0; i < 100; ++i) ASSERT_EQ(single[i], out[i]);
  }
}

}  // namespace
}  // namespace qkv::simd
