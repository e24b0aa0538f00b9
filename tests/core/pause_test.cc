#include "qkv/core/pause.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

#include "qkv/core/parallel.h"
#include "qkv/core/serial.h"

namespace qkv {
namespace {

TEST(Pause, CallsTheInnermostScope) {
  int outer = 0, inner = 0;
  Pause();
  {
    const PauseScope scope([&] { ++outer; });
    Pause();
    {
      const PauseScope within([&] { ++inner; });
      Pause();
    }
    Pause();
  }
  Pause();
  EXPECT_EQ(outer, 2);
  EXPECT_EQ(inner, 1);
}

TEST(Pause, IsNotCalledByWhatItCalls) {
  int calls = 0;
  const PauseScope scope([&] {
    ++calls;
    Pause();
    if (calls == 2) throw std::runtime_error("late");
  });
  Pause();
  EXPECT_EQ(calls, 1);
  EXPECT_THROW(Pause(), std::runtime_error);
  Pause();
  EXPECT_EQ(calls, 3);
}

TEST(Pause, DoesNothingInLoops) {
  SetNumThreads(2);
  std::atomic<int> calls{0};
  const PauseScope scope([&] { ++calls; });
  ParallelTasks(100, [](int64_t, int) { Pause(); });
  {
    const SerialLoops serial;
    Pause();
  }
  EXPECT_EQ(calls, 0);
  Pause();
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace qkv
