#include "qkv/core/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/core/thread_count.h"

namespace qkv {
namespace {

class ParallelThreads : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { SetNumThreads(GetParam()); }
  void TearDown() override { SetNumThreads(2); }
};
INSTANTIATE_TEST_SUITE_P(Threads, ParallelThreads, testing::Values(1, 2, 8));

TEST_P(ParallelThreads, RunsEveryTaskOnce) {
  const int threads = NumThreads();
  for (const int count : {0, 1, 2, 7, 1000}) {
    std::vector<std::atomic<int>> runs(count);
    ParallelTasks(count, [&](int64_t task, int thread) {
      ++runs[task];
      EXPECT_GE(thread, 0);
      EXPECT_LT(thread, threads);
    });
    for (const auto& run : runs) EXPECT_EQ(run, 1);
  }
}

TEST_P(ParallelThreads, PiecesCoverTheRange) {
  std::vector<std::atomic<int>> seen(103);
  ParallelFor(103, 10, [&](int64_t begin, int64_t end) {
    EXPECT_EQ(begin % 10, 0);
    for (int64_t i = begin; i < end; ++i) ++seen[i];
  });
  for (const auto& count : seen) EXPECT_EQ(count, 1);
}

TEST_P(ParallelThreads, PassesOnTheException) {
  EXPECT_THROW(ParallelTasks(100, [](int64_t task, int) { Require(task != 50, "task {}", task); }), Error);
}

TEST_P(ParallelThreads, NestedCallsRunToo) {
  std::atomic<int> runs{0};
  ParallelTasks(4, [&](int64_t, int) {
    EXPECT_EQ(NumThreads(), 1);
    ParallelTasks(4, [&](int64_t, int thread) {
      EXPECT_EQ(thread, 0);
      ++runs;
    });
  });
  EXPECT_EQ(runs, 16);
  EXPECT_EQ(NumThreads(), GetParam());
}

// Each share's first task waits for those of the others, so that no thread can help another before.
TEST_P(ParallelThreads, AThreadBeginsWithItsOwnShare) {
  const int threads = NumThreads();
  for (int loop = 0; loop < 100; ++loop) {  // one after the other: who still looks for work in one is late for the next
    std::atomic<int> begun{0};
    std::vector<int> first(threads, -1);
    ParallelTasks(3 * threads, [&](int64_t task, int thread) {
      if (task % 3 != 0) return;
      first[task / 3] = thread;
      for (++begun; begun < threads;) std::this_thread::yield();
    });
    for (int t = 0; t < threads; ++t) ASSERT_EQ(first[t], t) << "loop " << loop;
  }
}

// Short loops one after the other, from two threads at once: every task of every loop runs exactly once.
TEST_P(ParallelThreads, ManyShortLoops) {
  const auto loops = [] {
    for (int loop = 0; loop < 20000; ++loop) {
      std::atomic<int> sum{0};
      ParallelTasks(loop % 7, [&](int64_t task, int) { sum += static_cast<int>(task) + 1; });
      const int count = loop % 7;
      ASSERT_EQ(sum, count * (count + 1) / 2);
    }
  };
  std::thread other(loops);
  loops();
  other.join();
}

TEST(Parallel, RefusesNoThreads) { EXPECT_THROW(SetNumThreads(0), Error); }

TEST(ThreadCount, IsOfOneThreadAndOfOneScope) {
  SetNumThreads(2);
  {
    const ThreadCount outer(3);
    SetNumThreads(1);
    EXPECT_EQ(NumThreads(), 3);
    std::thread other([] { EXPECT_EQ(NumThreads(), 1); });
    other.join();
    {
      const ThreadCount inner(5);
      EXPECT_EQ(NumThreads(), 5);
    }
    EXPECT_EQ(NumThreads(), 3);
    std::atomic<int> highest{0};
    ParallelTasks(1000, [&](int64_t, int thread) {
      int seen = highest;
      while (thread > seen && !highest.compare_exchange_weak(seen, thread)) {
      }
    });
    EXPECT_LT(highest, 3);
  }
  EXPECT_EQ(NumThreads(), 1);
  EXPECT_THROW(ThreadCount(0), Error);
  SetNumThreads(2);
}

}  // namespace
}  // namespace qkv
