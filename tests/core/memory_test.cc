#include "qkv/core/memory.h"

#include <gtest/gtest.h>

#include <limits>

#include "qkv/core/error.h"
#include "tests/support/errors.h"

namespace qkv {
namespace {

class Memory : public testing::Test {
 protected:
  ~Memory() override { SetMemoryLimit(before_); }

 private:
  int64_t before_ = MemoryLimit();
};

TEST_F(Memory, IsLimitedByTheMachineUnlessSet) {
  EXPECT_GT(MemoryLimit(), int64_t{1} << 24);
  EXPECT_LT(MemoryLimit(), int64_t{1} << 50);
  SetMemoryLimit(1000);
  EXPECT_EQ(MemoryLimit(), 1000);
  EXPECT_THROW(SetMemoryLimit(0), Error);
}

TEST_F(Memory, IsRefusedWithWhatItWouldTake) {
  SetMemoryLimit(2'000'000'000);
  RequireMemory(2e9, "a model");
  EXPECT_EQ(ErrorMessage([] { RequireMemory(7.1e9, "a model"); }),
            "a model would take about 7.1 GB, and at most 2.0 GB may be used; --max-memory sets another limit");
  EXPECT_THROW(RequireMemory(std::numeric_limits<double>::infinity(), "a model"), Error);
  EXPECT_THROW(RequireMemory(std::numeric_limits<double>::quiet_NaN(), "a model"), Error);
}

TEST(FormatBytes, ChoosesTheUnit) {
  EXPECT_EQ(FormatBytes(4), "4 bytes");
  EXPECT_EQ(FormatBytes(1500), "2 kB");
  EXPECT_EQ(FormatBytes(340e6), "340 MB");
  EXPECT_EQ(FormatBytes(4.24e9), "4.2 GB");
  EXPECT_EQ(FormatBytes(5e12), "5.0 TB");
}

}  // namespace
}  // namespace qkv
