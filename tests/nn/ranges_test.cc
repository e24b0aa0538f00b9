#include "qkv/nn/ranges.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "tests/support/threads.h"

namespace qkv::nn {
namespace {

class Ranges : public testing::Test {
 protected:
  RestoreThreads restore_;
};

TEST_F(Ranges, HaveEveryRowOnceAndAreEven) {
  for (const int threads : {1, 2, 3}) {
    SetNumThreads(threads);
    for (const int64_t rows : {0, 1, 2, 197, 1576}) {
      for (const int64_t D : {0, 1, 192, 768, 1 << 17}) {
        std::vector<std::atomic<int>> visits(static_cast<size_t>(rows));
        std::atomic<int64_t> least = rows, most = 0, ranges = 0;
        ForRowRanges(rows, D, [&](int64_t begin, int64_t end) {
          for (int64_t row = begin; row < end; ++row) ++visits[static_cast<size_t>(row)];
          for (int64_t old = least; end - begin < old && !least.compare_exchange_weak(old, end - begin);) continue;
          for (int64_t old = most; end - begin > old && !most.compare_exchange_weak(old, end - begin);) continue;
          ++ranges;
        });
        SCOPED_TRACE(testing::Message() << threads << " threads, " << rows << " rows of " << D);
        for (const std::atomic<int>& visit : visits) ASSERT_EQ(visit, 1);
        EXPECT_LE(most - least, rows > 0 ? 1 : 0);
        EXPECT_TRUE(most <= 1 || most * D <= kElementsPerTask);
        // As many for each thread, unless there is too little to share out.
        EXPECT_TRUE(ranges <= 1 || ranges == rows || ranges % threads == 0) << ranges << " ranges";
      }
    }
  }
}

}  // namespace
}  // namespace qkv::nn
