// The queue of computations: batches, failures, cancellation, and long tasks that give way.
#include "qkv/server/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <stdexcept>

namespace qkv::server {
namespace {

using namespace std::chrono_literals;

// Squares a number, together with others; a negative one fails.
class Square final : public Task {
 public:
  Square(int number, std::vector<size_t>* batches) : number_(number), batches_(batches) {}
  std::string Key() const override { return "square"; }
  void Run(std::span<Task* const> batch) override {
    batches_->push_back(batch.size());
    for (Task* task : batch) {
      auto* const one = static_cast<Square*>(task);
      if (one->number_ < 0) throw std::domain_error("negative");
      one->result_ = one->number_ * one->number_;
    }
  }
  int result() const { return result_; }

 private:
  const int number_;
  std::vector<size_t>* const batches_;
  int result_ = -1;
};

const std::function<bool()> kNever = [] { return false; };

// Keeps the engine busy until it is opened.
class Gate {
 public:
  explicit Gate(Engine& engine)
      : done_(std::async(std::launch::async, [this, &engine] {
          engine.Compute(
              {"m", "gate"}, [this] { entered_.set_value(), open_.get_future().wait(); }, true, kNever);
        })) {
    entered_.get_future().wait();
  }
  void Open() {
    open_.set_value();
    done_.get();
  }

 private:
  std::promise<void> entered_, open_;
  std::future<void> done_;
};

void AwaitWaiting(const Engine& engine, int64_t tasks) {
  while (engine.waiting() < tasks) std::this_thread::sleep_for(1ms);
}

TEST(Engine, ComputesWaitingTasksTogether) {
  std::vector<BatchReport> reports;
  std::vector<size_t> batches;
  Engine engine({.most_together = 3}, [&](const BatchReport& report) { reports.push_back(report); });
  Gate gate(engine);
  std::vector<std::future<int>> results;
  for (int i = 0; i < 5; ++i) {
    results.push_back(std::async(std::launch::async, [&, i] {
      Square task(i, &batches);
      engine.Compute(task, kNever);
      return task.result();
    }));
  }
  AwaitWaiting(engine, 5);
  gate.Open();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(results[static_cast<size_t>(i)].get(), i * i);
  EXPECT_EQ(batches, (std::vector<size_t>{3, 2}));
  EXPECT_EQ(engine.waiting(), 0);
}

TEST(Engine, CountsTheRowsOfTasks) {
  class Wide final : public Task {
   public:
    explicit Wide(std::vector<size_t>* batches) : batches_(batches) {}
    std::string Key() const override { return "wide"; }
    int64_t rows() const override { return 4; }
    void Run(std::span<Task* const> batch) override { batches_->push_back(batch.size()); }

   private:
    std::vector<size_t>* const batches_;
  };
  std::vector<size_t> batches;
  Engine engine({.most_together = 8}, {});
  Gate gate(engine);
  std::vector<std::future<void>> results;
  for (int i = 0; i < 3; ++i) {
    results.push_back(std::async(std::launch::async, [&] {
      Wide task(&batches);
      engine.Compute(task, kNever);
    }));
  }
  AwaitWaiting(engine, 3);
  gate.Open();
  for (std::future<void>& result : results) result.get();
  EXPECT_EQ(batches, (std::vector<size_t>{2, 1}));
}

TEST(Engine, OneFailureIsItsOwn) {
  std::vector<size_t> batches;
  Engine engine({}, {});
  Gate gate(engine);
  std::vector<std::future<int>> results;
  for (int i = 0; i < 4; ++i) {
    results.push_back(std::async(std::launch::async, [&, i] {
      Square task(i == 2 ? -1 : i, &batches);
      engine.Compute(task, kNever);
      return task.result();
    }));
  }
  AwaitWaiting(engine, 4);
  gate.Open();
  for (int i = 0; i < 4; ++i) {
    if (i == 2) {
      EXPECT_THROW(results[2].get(), std::domain_error);
    } else {
      EXPECT_EQ(results[static_cast<size_t>(i)].get(), i * i);
    }
  }
}

TEST(Engine, DropsWhatNobodyWaitsFor) {
  std::vector<size_t> batches;
  Engine engine({}, {});
  Gate gate(engine);
  std::atomic<bool> gone{false};
  auto result = std::async(std::launch::async, [&] {
    Square task(1, &batches);
    engine.Compute(task, [&] { return gone.load(); });
  });
  AwaitWaiting(engine, 1);
  gone = true;
  EXPECT_THROW(result.get(), Cancelled);
  EXPECT_EQ(engine.waiting(), 0);
  gate.Open();
  EXPECT_TRUE(batches.empty());
}

// A task of two steps that is computed already, and gives way between them once `queued` is set.
std::future<void> BeginLong(Engine& engine, std::promise<void>& queued, std::vector<std::string>& order) {
  const auto entered = std::make_shared<std::promise<void>>();
  std::future<void> task = std::async(std::launch::async, [&, entered] {
    engine.Compute(
        {"m", "long"},
        [&] {
          entered->set_value();
          queued.get_future().wait();
          order.emplace_back("first step");
          engine.GiveWay();
          order.emplace_back("second step");
        },
        false, kNever);
  });
  entered->get_future().wait();
  return task;
}

TEST(Engine, LongTasksGiveWayToShortOnes) {
  Engine engine({}, {});
  std::promise<void> queued;
  std::vector<std::string> order;
  auto long_task = BeginLong(engine, queued, order);
  auto other_long = std::async(std::launch::async, [&] {
    engine.Compute(
        {"m", "long"}, [&] { order.emplace_back("other long one"); }, false, kNever);
  });
  AwaitWaiting(engine, 1);
  auto short_task = std::async(std::launch::async, [&] {
    engine.Compute(
        {"m", "short"}, [&] { order.emplace_back("short one"); }, true, kNever);
  });
  AwaitWaiting(engine, 2);
  queued.set_value();
  long_task.get(), other_long.get(), short_task.get();
  EXPECT_EQ(order, (std::vector<std::string>{"first step", "short one", "second step", "other long one"}));
}

TEST(Engine, LongTasksGiveWayToOneBatchAtATime) {
  Engine engine({}, {});
  std::promise<void> queued;
  std::vector<std::string> order;
  auto long_task = BeginLong(engine, queued, order);
  std::vector<std::future<void>> others;
  for (int i = 0; i < 2; ++i) {
    others.push_back(std::async(std::launch::async, [&] {
      engine.Compute(
          {"m", "short"}, [&] { order.emplace_back("short one"); }, true, kNever);
    }));
  }
  AwaitWaiting(engine, 2);
  queued.set_value();
  long_task.get();
  for (std::future<void>& other : others) other.get();
  EXPECT_EQ(order, (std::vector<std::string>{"first step", "short one", "second step", "short one"}));
}

TEST(Engine, WaitsForOthersNoLongerThanItMay) {
  std::vector<size_t> batches;
  Engine engine({.most_delay = 100ms}, {});
  const auto start = std::chrono::steady_clock::now();
  Square task(3, &batches);
  engine.Compute(task, kNever);
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_GE(took, 95ms);
  EXPECT_LT(took, 5s);
  // Not at all if nothing is on its way.
  Engine alone({.most_delay = 10s, .more_may_come = [] { return false; }}, {});
  Square other(4, &batches);
  alone.Compute(other, kNever);
  EXPECT_EQ(other.result(), 16);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 8s);
}

TEST(Engine, TellsOfItsBatches) {
  std::promise<BatchReport> told;
  Engine engine({}, [&](const BatchReport& report) { told.set_value(report); });
  engine.Compute(
      {"digits", "images"}, [] { std::this_thread::sleep_for(20ms); }, true, kNever);
  const BatchReport report = told.get_future().get();
  EXPECT_EQ(report.labels.model, "digits");
  EXPECT_EQ(report.tasks, 1);
  EXPECT_GE(report.computed, 0.019);
}

}  // namespace
}  // namespace qkv::server
