#include "qkv/core/call_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "qkv/core/parallel.h"
#include "qkv/core/pause.h"
#include "qkv/core/work.h"
#include "tests/support/forks.h"

namespace qkv {
namespace {

void AwaitWaiting(CallQueue& queue, int64_t calls) {
  while (queue.waiting() != calls) std::this_thread::yield();
}

TEST(CallQueue, RunsOneCallAtATimeInOrderOfArrival) {
  static CallQueue queue;
  std::vector<int> order;
  std::vector<std::thread> threads;
  queue.Run([&] {
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&order, i] { queue.Run([&] { order.push_back(i); }); });
      AwaitWaiting(queue, i + 1);
    }
    EXPECT_TRUE(order.empty());
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(CallQueue, LongCallsTakeTurnsStepByStep) {
  static CallQueue queue{std::chrono::nanoseconds(0)};
  constexpr int kThreads = 4, kSteps = 100;
  std::vector<int> order;
  const auto call = [&](int i) {
    for (int step = 0; step < kSteps; ++step) {
      order.push_back(i);
      Pause();
    }
  };
  std::vector<std::thread> threads;
  queue.Run([&] {
    for (int i = 1; i < kThreads; ++i) {
      threads.emplace_back([&call, i] { queue.Run([&] { call(i); }); });
      AwaitWaiting(queue, i);
    }
    call(0);
  });
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(std::ssize(order), kThreads * kSteps);
  for (int i = 0; i < kThreads * kSteps; ++i) ASSERT_EQ(order[static_cast<size_t>(i)], i % kThreads) << i;
}

TEST(CallQueue, AShortTurnIsNotGivenUp) {
  static CallQueue queue{std::chrono::hours(1)};
  std::vector<int> order;
  std::thread other;
  queue.Run([&] {
    other = std::thread([&] { queue.Run([&] { order.push_back(1); }); });
    AwaitWaiting(queue, 1);
    Pause();
    order.push_back(0);
  });
  other.join();
  EXPECT_EQ(order, (std::vector<int>{0, 1}));
}

TEST(CallQueue, ManyShortCalls) {
  static CallQueue queue{std::chrono::nanoseconds(0)};
  int calls = 0;  // no atomic: one call at a time
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int call = 0; call < 2000; ++call) {
        queue.Run([&] {
          ++calls;
          Pause();
          ++calls;
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(calls, 4 * 2000 * 2);
}

TEST(CallQueue, ANestedCallRunsAtOnce) {
  static CallQueue queue;
  SetNumThreads(2);
  std::atomic<int> calls{0};
  queue.Run([&] {
    queue.Run([&] { queue.Run([&] { ++calls; }); });
    ParallelTasks(2, [&](int64_t, int) { queue.Run([&] { ++calls; }); });
  });
  EXPECT_EQ(calls, 3);
}

TEST(CallQueue, AnExceptionEndsTheTurn) {
  static CallQueue queue;
  EXPECT_THROW(queue.Run([] { throw std::runtime_error("no"); }), std::runtime_error);
  EXPECT_THROW(queue.Run([] { queue.Run([] { throw std::runtime_error("no"); }); }), std::runtime_error);
  bool called = false;
  std::thread([&] { queue.Run([&] { called = true; }); }).join();
  EXPECT_TRUE(called);
}

TEST(CallQueue, ACallThatWaitsCanBeCancelled) {
  static CallQueue queue;
  bool called = false;
  queue.Run([&] {
    std::thread([&] {
      const CancelScope scope([&] { return queue.waiting() == 1; });
      EXPECT_THROW(queue.Run([&] { called = true; }), Cancelled);
      EXPECT_EQ(queue.waiting(), 0);
    }).join();
  });
  EXPECT_FALSE(called);
  queue.Run([&] { called = true; });
  EXPECT_TRUE(called);
}

// What a waiting call is asked, such as a handler of Python's signals, may make calls of its own.
TEST(CallQueue, TheQuestionToAWaitingCallMayCall) {
  static CallQueue queue;
  bool called = false;
  queue.Run([&] {
    std::thread([&] {
      const CancelScope scope([&] {
        queue.Run([&] { called = true; });
        return true;
      });
      EXPECT_THROW(queue.Run([] {}), Cancelled);
    }).join();
  });
  EXPECT_TRUE(called);
}

TEST(CallQueue, ACallThatGaveWayCanBeCancelled) {
  static CallQueue queue{std::chrono::nanoseconds(0)};
  std::atomic<bool> unwanted{false}, ended{false};
  std::thread other;
  const CancelScope scope([&] { return unwanted.load(); });
  EXPECT_THROW(queue.Run([&] {
    other = std::thread([&] {
      queue.Run([&] {
        for (unwanted = true; !ended;) std::this_thread::yield();
      });
    });
    AwaitWaiting(queue, 1);
    Pause();
    ADD_FAILURE() << "not cancelled";
  }),
               Cancelled);
  ended = true;
  other.join();
  unwanted = false;
  bool called = false;
  queue.Run([&] { called = true; });
  EXPECT_TRUE(called);
}

bool Calls(CallQueue& queue) {
  bool called = false;
  std::thread([&] { queue.Run([&] { called = true; }); }).join();
  return called;
}

class ForkedCallQueue : public testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "ThreadSanitizer ends a forked child that starts a thread";
#endif
  }
};

TEST_F(ForkedCallQueue, IsEmptyInAChildWhileOthersCall) {
  static CallQueue queue;
  std::atomic<bool> begun{false}, forked{false};
  std::thread holder([&] {
    queue.Run([&] {
      for (begun = true; !forked;) std::this_thread::yield();
    });
  });
  while (!begun) std::this_thread::yield();
  std::thread waiter([&] { queue.Run([] {}); });
  AwaitWaiting(queue, 1);
  EXPECT_TRUE(ExitsAfter(3, [&] { return queue.waiting() == 0 && Calls(queue) ? 3 : 1; }));
  forked = true;
  holder.join();
  waiter.join();
  EXPECT_TRUE(Calls(queue));
}

TEST_F(ForkedCallQueue, IsUsableInAChildThatACallForked) {
  static CallQueue queue{std::chrono::nanoseconds(0)};
  queue.Run([&] {
    EXPECT_TRUE(ExitsAfter(3, [&] {
      Pause();
      queue.Run([] {});
      return Calls(queue) ? 3 : 1;
    }));
  });
  EXPECT_TRUE(Calls(queue));
}

TEST_F(ForkedCallQueue, ACallEndsInItsChildToo) {
  static CallQueue queue;
  pid_t child = -1;
  queue.Run([&] { child = ::fork(); });
  if (child == 0) ::_exit(Calls(queue) ? 3 : 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 3) << status;
}

}  // namespace
}  // namespace qkv
