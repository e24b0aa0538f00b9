// Cores beside the engine: how many works go on, whose turn it is, and works within works.
#include "qkv/server/cores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
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

// Work of a client that holds the only core until others have had it, in whose steps it asks as decoders do.
class LongWork : public testing::Test {
 protected:
  void Begin(std::function<bool()> cancelled = {}) {
    long_ = std::async(std::launch::async, [this, cancelled = std::move(cancelled)] {
      const CancelScope scope(cancelled);
      cores_.Run("photos", [&] {
        begun_ = true;
        while (!ends_) Spend(100);
        order_.push_back("long");
      });
    });
    while (!begun_) std::this_thread::sleep_for(1ms);
  }

  Cores cores_{1};
  std::atomic<bool> begun_{false}, ends_{false};
  std::vector<std::string> order_;  // written by whoever has the core
  std::future<void> long_;
};

TEST_F(LongWork, GivesItsCoreToAnotherClientAndGoesOn) {
  Begin();
  for (int i = 0; i < 3; ++i) {
    cores_.Run("digits", [&] { order_.push_back("digit"); });  // ends only if the core is given
  }
  ends_ = true;
  long_.get();
  EXPECT_EQ(order_, (std::vector<std::string>{"digit", "digit", "digit", "long"}));
  EXPECT_EQ(cores_.waiting(), 0);
}

// What has begun holds memory: a client's next work does not begin before it.
TEST_F(LongWork, GoesBeforeItsOwnClientsOtherWork) {
  Begin();
  std::vector<std::future<void>> others;
  for (int i = 0; i < 4; ++i) {
    others.push_back(std::async(std::launch::async, [&] { cores_.Run("photos", [&] { order_.push_back("photo"); }); }));
  }
  AwaitWaiting(cores_, 4);
  for (int i = 0; i < 2; ++i) cores_.Run("digits", [&] { order_.push_back("digit"); });
  ends_ = true;
  long_.get();
  for (std::future<void>& other : others) other.get();
  EXPECT_EQ(order_, (std::vector<std::string>{"digit", "digit", "long", "photo", "photo", "photo", "photo"}));
}

TEST_F(LongWork, IsGivenUpWhileItWaitsForItsNextTurn) {
  std::atomic<bool> gone{false};
  Begin([&] { return gone.load(); });
  cores_.Run("digits", [&] {
    while (cores_.waiting() == 0) std::this_thread::sleep_for(1ms);
    gone = true;
    // Another core is not needed to end.
    EXPECT_THROW(long_.get(), Cancelled);
  });
  EXPECT_TRUE(order_.empty());
  EXPECT_EQ(cores_.waiting(), 0);
  cores_.Run("photos", [&] { order_.push_back("next"); });
  EXPECT_EQ(order_.size(), 1u);
}

// Callbacks of C libraries ask so, through which nothing may be thrown.
TEST(Cores, WorkThatIsGivenUpIsToldAndNotThrownThrough) {
  Cores cores(1);
  std::atomic<bool> gone{false}, begun{false}, told{false};
  auto first = std::async(std::launch::async, [&] {
    const CancelScope scope([&] { return gone.load(); });
    cores.Run("photos", [&] {
      begun = true;
      while (!IsCancelled()) std::this_thread::sleep_for(1ms);
      told = IsCancelled();
    });
  });
  while (!begun) std::this_thread::sleep_for(1ms);
  cores.Run("digits", [&] {
    while (cores.waiting() == 0) std::this_thread::sleep_for(1ms);
    gone = true;
    first.get();
  });
  EXPECT_TRUE(told);
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
