#include "qkv/core/fork.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "qkv/core/parallel.h"
#include "tests/support/forks.h"
#include "tests/support/threads.h"

namespace qkv {
namespace {

class Fork : public testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "ThreadSanitizer ends a forked child that starts a thread";
#endif
    SetNumThreads(2);
  }

 private:
  const RestoreThreads restore_;
};

// Two tasks that wait for each other, so a thread each must run them.
void LoopOnTwoThreads() {
  std::atomic<int> begun{0};
  ParallelTasks(2, [&](int64_t, int) {
    for (++begun; begun < 2;) std::this_thread::yield();
  });
}

TEST_F(Fork, AChildHasThreadsOfItsOwn) {
  LoopOnTwoThreads();
  EXPECT_TRUE(ExitsAfter(3, [] {
    LoopOnTwoThreads();
    return 3;
  }));
  LoopOnTwoThreads();
}

TEST_F(Fork, AChildOfAChildHasThreadsToo) {
  LoopOnTwoThreads();
  EXPECT_TRUE(ExitsAfter(3, [] {
    LoopOnTwoThreads();
    return ExitsAfter(4,
                      [] {
                        LoopOnTwoThreads();
                        return 4;
                      })
               ? 3
               : 1;
  }));
}

TEST_F(Fork, AChildIsUsableWhateverLoopItsParentIsIn) {
  std::atomic<bool> forked{false}, begun{false};
  std::thread other([&] {
    ParallelTasks(2, [&](int64_t, int) {
      for (begun = true; !forked;) std::this_thread::yield();
    });
  });
  while (!begun) std::this_thread::yield();
  EXPECT_TRUE(ExitsAfter(3, [] {
    LoopOnTwoThreads();
    return 3;
  }));
  forked = true;
  other.join();
  LoopOnTwoThreads();
}

TEST_F(Fork, ChildrenOfAProcessWithManyShortLoops) {
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) ParallelTasks(4, [](int64_t, int) {});
  });
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(ExitsAfter(3, [] {
      LoopOnTwoThreads();
      return 3;
    }));
  }
  stop = true;
  other.join();
}

TEST_F(Fork, AProcessExitsWhileAnotherThreadIsInALoop) {
  EXPECT_TRUE(ExitsAfter(3, [] {
    static std::atomic<int> begun{0};
    std::thread([] {
      ParallelTasks(2, [](int64_t, int) {
        for (++begun;;) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      });
    }).detach();
    while (begun < 2) std::this_thread::yield();
    return 3;
  }));
}

TEST_F(Fork, EachProcessHasItsOwn) {
  static internal::PerProcess<std::mutex> mutex;
  std::mutex& own = mutex.Get();
  EXPECT_EQ(&own, &mutex.Get());
  const std::lock_guard lock(own);
  EXPECT_TRUE(ExitsAfter(3, [&] {
    const std::lock_guard again(mutex.Get());
    return &mutex.Get() != &own ? 3 : 1;
  }));
}

}  // namespace
}  // namespace qkv
