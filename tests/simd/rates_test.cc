#include "qkv/simd/rates.h"

#include <gtest/gtest.h>

#include "tests/support/isas.h"

namespace qkv::simd {
namespace {

class RatesTest : public IsaTest {};
QKV_FOR_ALL_ISAS(RatesTest);

// No processor of these instruction sets is slower or faster than this: a loop that was optimised away would be.
TEST_P(RatesTest, AreOfThisWorld) {
  const Rates rates = MeasureRates();
  EXPECT_GT(rates.flops, 1e6);
  EXPECT_LT(rates.flops, 1e16);
  EXPECT_GT(rates.bytes, 1e6);
  EXPECT_LT(rates.bytes, 1e15);
}

}  // namespace
}  // namespace qkv::simd
