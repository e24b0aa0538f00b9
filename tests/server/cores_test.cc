// Cores beside the engine: how many works go on, whose turn it is, and works within works.
#include "qkv/server/cores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

#include "qkv/core/work.h"

namespace qkv::server {
namespace {

using namespace std::chrono_literals;

void AwaitWaiting(const Cores& cores, int64_t works) {
  while (cores.waiting() < works) std::this_thread::sleep_for(1ms);
}

class CoresTest : public testing::Test {
 protected:
  // Waits for its turn and then for `open_`.
  void Begin(const std::string& client) {
    works_.push_back(std::async(std::launch::async, [this, client] {
      cores_.Run(client, [&] {
        most_ = std::max<int>(most_, ++running_);
        open_.wait();
        std::this_thread::sleep_for(1ms);
        {
          const std::lock_guard lock(mutex_);
          order_.push_back(client);
        }
        --running_;
      });
    }));
  }

  static constexpr int kCores = 2;
  Cores cores_{kCores};
  std::promise<void> opened_;
  const std::shared_future<void> open_ = opened_.get_future().share();
  std::mutex mutex_;
  std::vector<std::string> order_;
  std::atomic<int> running_{0}, most_{0};
  std::vector<std::future<void>> works_;
};

TEST_F(CoresTest, ANewcomerWaitsForTheWorkThatHasBegun) {
  constexpr int kOthers = 40;
  for (int i = 0; i < kOthers; ++i) Begin("photos");
  AwaitWaiting(cores_, kOthers - kCores);
  Begin("digits");
  AwaitWaiting(cores_, kOthers - kCores + 1);
  opened_.set_value();
  for (std::future<void>& work : works_) work.get();
  EXPECT_EQ(most_, kCores);
  // Those that had begun, and those beside which it goes on.
  EXPECT_LE(std::ranges::find(order_, "digits") - order_.begin(), 2 * kCores);
}

TEST_F(CoresTest, GivesUpWorkThatWaits) {
  for (int i = 0; i < kCores; ++i) Begin("photos");
  while (running_ < kCores) std::this_thread::sleep_for(1ms);
  std::atomic<bool> gone{false}, done{false};
  auto waiting = std::async(std::launch::async, [&] {
    const CancelScope scope([&] { return gone.load(); });
    cores_.Run("digits", [&] { done = true; });
  });
  AwaitWaiting(cores_, 1);
  gone = true;
  EXPECT_THROW(waiting.get(), Cancelled);
  EXPECT_EQ(cores_.waiting(), 0);
  EXPECT_FALSE(done);
  opened_.set_value();
  for (std::future<void>& work : works_) work.get();
  cores_.Run("digits", [&] { done = true; });
  EXPECT_TRUE(done);
}

TEST(Cores, WorkWithinWorkNeedsNoOtherCore) {
  Cores cores(1);
  int done = 0;
  cores.Run("a", [&] {
    cores.Run("a", [&] { ++done; });
    ++done;
  });
  EXPECT_EQ(done, 2);
}

TEST(Cores, WorkThatFailsLeavesItsCore) {
  Cores cores(1);
  EXPECT_THROW(cores.Run("a", [] { throw std::domain_error("bad"); }), std::domain_error);
  int done = 0;
  cores.Run("a", [&] { ++done; });
  EXPECT_EQ(done, 1);
}

}  // namespace
}  // namespace qkv::server
