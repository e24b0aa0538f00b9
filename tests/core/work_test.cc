#include "qkv/core/work.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "qkv/core/await.h"
#include "qkv/core/error.h"
#include "qkv/core/parallel.h"

namespace qkv {
namespace {

TEST(Work, CountsSteps) {
  const int64_t before = StepsDone();
  for (int i = 0; i < 1000; ++i) Spend(3);
  EXPECT_EQ(StepsDone() - before, 3000);
}

TEST(Work, WithoutAScopeNothingIsCancelled) {
  EXPECT_FALSE(IsCancelled());
  EXPECT_NO_THROW(CheckCancelled());
  EXPECT_NO_THROW(Spend(int64_t{1} << 40));
}

TEST(Work, AScopeEndsALoopThatCountsItsSteps) {
  std::atomic<bool> unwanted{false};
  const CancelScope scope([&] { return unwanted.load(); });
  Spend(1 << 20);
  std::thread client([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    unwanted = true;
  });
  EXPECT_THROW(
      {
        for (;;) Spend(100);
      },
      Cancelled);
  EXPECT_TRUE(IsCancelled());
  EXPECT_THROW(CheckCancelled(), Cancelled);
  client.join();
}

TEST(Work, AScopeWithinReplacesTheOuterOne) {
  const CancelScope outer([] { return true; });
  {
    const CancelScope inner([] { return false; });
    EXPECT_FALSE(IsCancelled());
    EXPECT_NO_THROW(Spend(int64_t{1} << 30));
  }
  EXPECT_THROW(Spend(int64_t{1} << 30), Cancelled);
}

TEST(Work, ParallelLoopsAreCancelledToo) {
  for (const int threads : {1, 2, 4}) {
    SetNumThreads(threads);
    std::atomic<int64_t> asked{0};
    const CancelScope scope([&] { return ++asked > 3; });
    std::atomic<int64_t> done{0};
    EXPECT_THROW(ParallelTasks(1000000,
                               [&](int64_t, int) {
                                 CheckCancelled();
                                 ++done;
                               }),
                 Cancelled);
    EXPECT_LE(done, 4 + threads);
  }
  SetNumThreads(2);
  std::atomic<int> seen{0};
  ParallelTasks(100, [&](int64_t, int) { seen += IsCancelled() ? 1 : 0; });  // workers keep no scope
  EXPECT_EQ(seen, 0);
}

// Tasks that count no steps, in loops on one thread and more, and in loops within them.
TEST(Work, AScopeOfTasksEndsLoopsThatCheckNothing) {
  for (const int threads : {1, 2}) {
    SetNumThreads(threads);
    for (const int64_t outer : {1, 4}) {
      std::atomic<int> done{0};
      const CancelScope scope([&] { return done > 10; }, CancelChecks::kInTasks);
      EXPECT_THROW(ParallelTasks(outer,
                                 [&](int64_t, int) {
                                   ParallelTasks(2000, [&](int64_t, int) {
                                     std::this_thread::sleep_for(std::chrono::milliseconds(1));
                                     ++done;
                                   });
                                 }),
                   Cancelled);
      EXPECT_LT(done, 1900);
    }
  }
  SetNumThreads(2);
}

TEST(Work, OnlyAScopeOfTasksIsAskedByThem) {
  for (const int threads : {1, 2}) {
    SetNumThreads(threads);
    for (const CancelChecks checks : {CancelChecks::kBetweenSteps, CancelChecks::kInTasks}) {
      std::atomic<int> asked{0};
      const CancelScope scope([&] { return ++asked < 0; }, checks);
      ParallelTasks(50, [&](int64_t, int) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
      EXPECT_EQ(asked > 0, checks == CancelChecks::kInTasks);
    }
  }
  SetNumThreads(2);
}

TEST(Work, ACallerThatWaitsForTasksAsks) {
  SetNumThreads(2);
  const auto caller = std::this_thread::get_id();
  std::atomic<int> begun{0};
  std::atomic<bool> waits{false}, asked{false};
  const CancelScope scope(
      [&] {
        if (waits && std::this_thread::get_id() == caller) asked = true;
        return asked.load();
      },
      CancelChecks::kInTasks);
  EXPECT_THROW(ParallelTasks(2,
                             [&](int64_t, int) {
                               for (++begun; begun < 2;) std::this_thread::yield();
                               if (std::this_thread::get_id() == caller) {
                                 waits = true;
                                 return;
                               }
                               for (int i = 0; i < 10'000 && !asked; ++i) {
                                 std::this_thread::sleep_for(std::chrono::milliseconds(1));
                               }
                             }),
               Cancelled);
  EXPECT_TRUE(asked);
}

TEST(Work, AwaitOrCancel) {
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_lock lock(mutex);
  int looks = 0;
  AwaitOrCancel(changed, lock, [&] { return ++looks > 0; });
  const CancelScope scope(
      [&] {
        EXPECT_TRUE(mutex.try_lock());
        mutex.unlock();
        return looks > 1;
      },
      CancelChecks::kInTasks);
  EXPECT_THROW(AwaitOrCancel(changed, lock, [&] { return ++looks < 0; }), Cancelled);
  EXPECT_FALSE(lock.owns_lock());
}

TEST(Work, ABudgetEndsInAnErrorThatNamesIt) {
  const WorkBudget budget(1000, "encode: a text of 9 bytes");
  for (int i = 0; i < 10; ++i) Spend(100);
  try {
    Spend(1);
    FAIL() << "no Error";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), "encode: a text of 9 bytes: takes more than 1000 steps");
  }
  EXPECT_THROW(Spend(1), Error);
}

TEST(Work, ABudgetEndsWithItsScopeAndTakesFromTheOuterOne) {
  const WorkBudget outer(1000, "outer");
  {
    const WorkBudget inner(100, "inner");
    EXPECT_NO_THROW(Spend(100));
    EXPECT_THROW(Spend(1), Error);
  }
  EXPECT_NO_THROW(Spend(800));
  {
    const WorkBudget inner(1'000'000, "inner");
    EXPECT_THROW(Spend(200), Error);
  }
  EXPECT_THROW(Spend(1), Error);
}

}  // namespace
}  // namespace qkv
