#include "qkv/core/progress.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace qkv {
namespace {

TEST(Progress, ShowsWhatWasWrittenBeforeItWasTold) {
  constexpr int kSteps = 2000;
  std::vector<int> written(kSteps);
  int64_t progress = 0;
  std::thread writer([&] {
    for (int i = 0; i < kSteps; ++i) {
      if (i % 500 == 0) std::this_thread::yield();  // the reader catches up, and waits
      written[i] = i + 1;
      ReportProgress(progress, i + 1);
    }
  });
  for (int i = 0; i < kSteps; ++i) {
    AwaitProgress(progress, i + 1);
    EXPECT_EQ(written[i], i + 1);
  }
  writer.join();
  AwaitProgress(progress, kSteps);  // told already
}

}  // namespace
}  // namespace qkv
