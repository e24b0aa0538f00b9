#include "qkv/core/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace qkv {
namespace {

TEST(Half, EveryFiniteValueSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Half half{static_cast<uint16_t>(bits)};
    const float x = ToFloat(half);
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(ToFloat(ToHalf(x))));
    } else {
      EXPECT_EQ(ToHalf(x).bits, bits);
    }
  }
}

TEST(Half, RoundsToNearestEven) {
  EXPECT_EQ(ToFloat(ToHalf(1.f + 0x1p-11f)), 1.f);                // a tie, to even
  EXPECT_EQ(ToFloat(ToHalf(1.f + 3 * 0x1p-11f)), 1.f + 0x1p-9f);  // a tie, to even, upwards
  EXPECT_EQ(ToFloat(ToHalf(1.f + 0x1.8p-11f)), 1.f + 0x1p-10f);   // above a tie
  EXPECT_EQ(ToFloat(ToHalf(65519.f)), 65504.f);
  EXPECT_TRUE(std::isinf(ToFloat(ToHalf(65520.f))));
  EXPECT_EQ(ToFloat(ToHalf(0x1p-25f)), 0.f);  // half of the least subnormal, to even
  EXPECT_EQ(ToFloat(ToHalf(-0x1.8p-25f)), -0x1p-24f);
}

TEST(BFloat16, EveryFiniteValueSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float x = ToFloat(BFloat16{static_cast<uint16_t>(bits)});
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(ToFloat(ToBFloat16(x))));
    } else {
      EXPECT_EQ(ToBFloat16(x).bits, bits);
    }
  }
}

TEST(BFloat16, RoundsToNearestEven) {
  EXPECT_EQ(ToFloat(ToBFloat16(1.f + 0x1p-8f)), 1.f);
  EXPECT_EQ(ToFloat(ToBFloat16(1.f + 0x1.8p-8f)), 1.f + 0x1p-7f);
  EXPECT_TRUE(std::isinf(ToFloat(ToBFloat16(std::numeric_limits<float>::max()))));
}

}  // namespace
}  // namespace qkv
