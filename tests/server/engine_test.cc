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

// The square, as a request of its own.
int Compute(Engine& engine, int number, std::vector<size_t>* batches) {
  Turn turn;
  const auto task = std::make_shared<Square>(number, batches);
  engine.Compute(task, turn, kNever);
  return task->result();
}

void Compute(Engine& engine, const TaskLabels& labels, const std::function<void()>& work,
             TaskClass task_class = TaskClass::kWhole) {
  Turn turn;
  engine.Compute(labels, work, task_class, turn, kNever);
}

// Keeps the engine busy until it is opened.
class Gate {
 public:
  explicit Gate(Engine& engine)
      : done_(std::async(std::launch::async, [this, &engine] {
          Compute(engine, {"m", "gate"}, [this] { entered_.set_value(), open_.get_future().wait(); });
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
  Engine engine({.most_together = 3, .most_seconds = 1}, [&](const BatchReport& report) { reports.push_back(report); });
  Gate gate(engine);
  std::vector<std::future<int>> results;
  for (int i = 0; i < 5; ++i) {
    results.push_back(std::async(std::launch::async, [&, i] { return Compute(engine, i, &batches); }));
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
  Engine engine({.most_together = 8, .most_seconds = 1}, {});
  Gate gate(engine);
  std::vector<std::future<void>> results;
  for (int i = 0; i < 3; ++i) {
    results.push_back(std::async(std::launch::async, [&] {
      Turn turn;
      engine.Compute(std::make_shared<Wide>(&batches), turn, kNever);
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
    results.push_back(std::async(std::launch::async, [&, i] { return Compute(engine, i == 2 ? -1 : i, &batches); }));
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
    Turn turn;
    engine.Compute(std::make_shared<Square>(1, &batches), turn, [&] { return gone.load(); });
  });
  AwaitWaiting(engine, 1);
  gone = true;
  EXPECT_THROW(result.get(), Cancelled);
  EXPECT_EQ(engine.waiting(), 0);
  gate.Open();
  EXPECT_TRUE(batches.empty());
}

// Work that ends only when it is given up.
class Endless final : public Task {
 public:
  explicit Endless(std::atomic<int>* begun) : begun_(begun) {}
  std::string Key() const override { return "endless"; }
  void Run(std::span<Task* const>) override {
    for (++*begun_;;) {
      CheckCancelled();
      std::this_thread::sleep_for(1ms);
    }
  }

 private:
  std::atomic<int>* const begun_;
};

// Waits in the engine for endless work until `gone`; true if it was given up.
std::future<bool> BeginEndless(Engine& engine, std::atomic<int>* begun, const std::atomic<bool>& gone) {
  return std::async(std::launch::async, [&engine, begun, &gone] {
    Turn turn;
    try {
      engine.Compute(std::make_shared<Endless>(begun), turn, [&gone] { return gone.load(); });
    } catch (const Cancelled&) {
      return true;
    }
    return false;
  });
}

TEST(Engine, EndsWhatHasBegunOnceNobodyWaits) {
  std::vector<size_t> batches;
  std::atomic<int> begun{0};
  std::atomic<bool> first_gone{false}, second_gone{false};
  Engine engine({}, {});
  Gate gate(engine);
  auto first = BeginEndless(engine, &begun, first_gone), second = BeginEndless(engine, &begun, second_gone);
  AwaitWaiting(engine, 2);
  gate.Open();
  while (begun == 0) std::this_thread::sleep_for(1ms);
  // One of a batch leaves, which goes on for the other.
  first_gone = true;
  EXPECT_TRUE(first.get());
  EXPECT_EQ(second.wait_for(50ms), std::future_status::timeout);
  second_gone = true;
  EXPECT_TRUE(second.get());
  EXPECT_EQ(begun, 1);
  EXPECT_EQ(Compute(engine, 3, &batches), 9) << "the engine is free again";
}

TEST(Engine, EndsFunctionsThatUseTheCallersMemory) {
  Engine engine({}, {});
  std::atomic<bool> gone{false};
  std::atomic<int> steps{0};
  auto call = std::async(std::launch::async, [&] {
    Turn turn;
    std::vector<int> own(1000);
    engine.Compute(
        {"m", "endless"},
        [&] {
          for (;; ++steps) CheckCancelled(), ++own[static_cast<size_t>(steps % 1000)];
        },
        TaskClass::kWhole, turn, [&] { return gone.load(); });
  });
  while (steps == 0) std::this_thread::sleep_for(1ms);
  gone = true;
  EXPECT_THROW(call.get(), Cancelled);
}

TEST(Engine, TasksWithinTasksAreGivenUpByTheirOwnCallers) {
  Engine engine({}, {});
  std::promise<void> entered;
  std::atomic<bool> gone{false};
  std::atomic<int> begun{0};
  bool outer_goes_on = false;
  auto outer = std::async(std::launch::async, [&] {
    Compute(
        engine, {"m", "long"},
        [&] {
          entered.set_value();
          AwaitWaiting(engine, 1);
          engine.GiveWay();
          CheckCancelled();
          outer_goes_on = true;
        },
        TaskClass::kLong);
  });
  entered.get_future().wait();
  auto inner = BeginEndless(engine, &begun, gone);
  while (begun == 0) std::this_thread::sleep_for(1ms);
  gone = true;
  EXPECT_TRUE(inner.get());
  outer.get();
  EXPECT_TRUE(outer_goes_on);
}

// Counts the images of each batch; an image is of so many operations.
class Photos final : public Task {
 public:
  Photos(double operations, int64_t images, std::vector<int64_t>* batches, double seconds = 0)
      : operations_(operations), images_(images), batches_(batches), seconds_(seconds) {}
  std::string Key() const override { return "photos"; }
  TaskLabels Labels() const override { return {"m", "photos"}; }
  int64_t size() const override { return images_; }
  double operations() const override { return operations_ * static_cast<double>(images_); }
  void Run(std::span<Task* const> batch) override {
    int64_t images = 0;
    for (Task* task : batch) images += task->size();
    batches_->push_back(images);
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds_ * static_cast<double>(images)));
  }

 private:
  const double operations_;
  const int64_t images_;
  std::vector<int64_t>* const batches_;
  const double seconds_;
};

TEST(Engine, CutsBatchesByPredictedTime) {
  std::vector<int64_t> batches;
  Engine engine({.most_together = 32, .most_seconds = 0.04}, {});
  const std::vector<double> cheap(64, 1e3), dear(64, 1e15);
  EXPECT_EQ(engine.Together({"m", "photos"}, cheap), 32);
  EXPECT_EQ(engine.Together({"m", "photos"}, dear), 1) << "one at least";
  // Measured: 10 ms for 1e3 operations.
  Turn turn;
  engine.Compute(std::make_shared<Photos>(1e3, 2, &batches, 0.01), turn, kNever);
  EXPECT_GE(engine.Predict({"m", "photos"}, 1e3), 0.01);
  EXPECT_LE(engine.Together({"m", "photos"}, cheap), 4);
  EXPECT_EQ(engine.Together({"other", "photos"}, cheap), 32);
  EXPECT_GE(turn.computed, 0.02);
  // Tasks that wait are joined by the same rule.
  Gate gate(engine);
  batches.clear();
  std::vector<std::future<void>> results;
  for (int i = 0; i < 8; ++i) {
    results.push_back(std::async(std::launch::async, [&] {
      Turn own;
      engine.Compute(std::make_shared<Photos>(1e3, 1, &batches), own, kNever);
    }));
  }
  AwaitWaiting(engine, 8);
  EXPECT_GE(engine.ExpectedWait(), 0.08);
  gate.Open();
  for (std::future<void>& result : results) result.get();
  EXPECT_LE(batches[0], 4);
}

TEST(Engine, ChargesClientsWhatTheirTasksReallyTook) {
  Engine engine({.most_delay = 0us}, {});
  std::vector<std::string> order;
  std::vector<std::future<void>> results;
  Gate gate(engine);
  const auto add = [&](const std::string& client, std::chrono::milliseconds time) {
    results.push_back(std::async(std::launch::async, [&, client, time] {
      Turn turn{.client = client};
      const auto work = [&] { std::this_thread::sleep_for(time), order.push_back(client); };
      engine.Compute({"m", "writing"}, work, TaskClass::kWhole, turn, kNever);
    }));
    AwaitWaiting(engine, std::ssize(results));
  };
  // All are predicted alike.
  for (int i = 0; i < 3; ++i) add("heavy", 200ms);
  for (int i = 0; i < 20; ++i) add("light", 0ms);
  gate.Open();
  for (std::future<void>& result : results) result.get();
  const auto second = std::find(std::find(order.begin(), order.end(), "heavy") + 1, order.end(), "heavy");
  EXPECT_EQ(std::count(order.begin(), second, "light"), 20);
}

// A task of some steps that is computed already, and gives way between them once `queued` is set.
std::future<void> BeginLong(Engine& engine, std::promise<void>& queued, std::vector<std::string>& order,
                            TaskClass task_class = TaskClass::kLong, int steps = 2) {
  const auto entered = std::make_shared<std::promise<void>>();
  std::future<void> task = std::async(std::launch::async, [&, entered, task_class, steps] {
    const auto work = [&] {
      entered->set_value();
      queued.get_future().wait();
      for (int i = 0; i < steps; ++i) {
        if (i > 0) engine.GiveWay();
        order.emplace_back("step");
      }
    };
    Compute(engine, {"m", "long"}, work, task_class);
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
    Compute(
        engine, {"m", "long"}, [&] { order.emplace_back("other long one"); }, TaskClass::kLong);
  });
  AwaitWaiting(engine, 1);
  auto short_task = std::async(std::launch::async, [&] {
    Compute(engine, {"m", "short"}, [&] { order.emplace_back("short one"); });
  });
  AwaitWaiting(engine, 2);
  queued.set_value();
  long_task.get(), other_long.get(), short_task.get();
  EXPECT_EQ(order, (std::vector<std::string>{"step", "short one", "step", "other long one"}));
}

// Who goes before the second step of a task, of all that wait; the rest follow it.
std::vector<std::string> WhoGoesFirst(TaskClass running) {
  Engine engine({}, {});
  std::promise<void> queued;
  std::vector<std::string> order;
  auto task = BeginLong(engine, queued, order, running, /*steps=*/6);
  std::vector<std::future<void>> others;
  const std::vector<std::pair<const char*, TaskClass>> waiting = {{"long text", TaskClass::kLong},
                                                                  {"explorer", TaskClass::kExplorer},
                                                                  {"short text", TaskClass::kShort},
                                                                  {"digit", TaskClass::kWhole}};
  for (const auto& [who, of_class] : waiting) {
    others.push_back(std::async(std::launch::async, [&engine, &order, name = who, task_class = of_class] {
      const auto work = [&] {
        order.emplace_back(name);
        engine.GiveWay();
      };
      Compute(engine, {"m", name}, work, task_class);
    }));
    AwaitWaiting(engine, std::ssize(others));
  }
  queued.set_value();
  task.get();
  for (auto& other : others) other.get();
  EXPECT_EQ(order.size(), 4 + 6);
  const auto last = std::find(order.rbegin(), order.rend(), "step").base();
  std::vector<std::string> first(order.begin(), last);
  std::erase(first, "step");
  std::ranges::sort(first);
  return first;
}

TEST(Engine, TasksGiveWayToThoseOfLaterClasses) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(WhoGoesFirst(TaskClass::kLong), (Names{"digit", "explorer", "short text"}));
  EXPECT_EQ(WhoGoesFirst(TaskClass::kExplorer), (Names{"digit", "short text"}));
  EXPECT_EQ(WhoGoesFirst(TaskClass::kShort), (Names{"digit"}));
  EXPECT_EQ(WhoGoesFirst(TaskClass::kWhole), Names{});
}

// A text that lets a call of the explorer go first does not hold up those before which that call does not go.
TEST(Engine, TasksWithinTasksGiveWayToo) {
  Engine engine({}, {});
  std::vector<std::string> order;
  std::vector<std::future<void>> tasks;
  // Returns once the task runs, so that the next one is what it gives way to.
  const auto begin = [&](const char* name, TaskClass task_class) {
    const auto entered = std::make_shared<std::promise<void>>();
    tasks.push_back(std::async(std::launch::async, [&engine, &order, name, task_class, entered] {
      const auto work = [&] {
        order.emplace_back(name);
        entered->set_value();
        AwaitWaiting(engine, 1);
        engine.GiveWay();
        order.push_back(std::string(name) + " ends");
      };
      Compute(engine, {"m", name}, work, task_class);
    }));
    entered->get_future().wait();
  };
  begin("long text", TaskClass::kLong), begin("explorer", TaskClass::kExplorer), begin("short text", TaskClass::kShort);
  Compute(engine, {"m", "digit"}, [&] { order.emplace_back("digit"); });
  for (std::future<void>& task : tasks) task.get();
  EXPECT_EQ(order, (std::vector<std::string>{"long text", "explorer", "short text", "digit", "short text ends",
                                             "explorer ends", "long text ends"}));
}

TEST(Engine, LongTasksGiveWayToOneBatchAtATime) {
  Engine engine({}, {});
  std::promise<void> queued;
  std::vector<std::string> order;
  auto long_task = BeginLong(engine, queued, order);
  std::vector<std::future<void>> others;
  for (int i = 0; i < 2; ++i) {
    others.push_back(std::async(std::launch::async, [&] {
      Compute(engine, {"m", "short"}, [&] { order.emplace_back("short one"); });
    }));
  }
  AwaitWaiting(engine, 2);
  queued.set_value();
  long_task.get();
  for (std::future<void>& other : others) other.get();
  EXPECT_EQ(order, (std::vector<std::string>{"step", "short one", "step", "short one"}));
}

TEST(Engine, WaitsForOthersNoLongerThanItMay) {
  std::vector<size_t> batches;
  Engine engine({.most_delay = 100ms}, {});
  const auto start = std::chrono::steady_clock::now();
  Compute(engine, 3, &batches);
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_GE(took, 95ms);
  EXPECT_LT(took, 5s);
  // Not at all if nothing is on its way.
  Engine alone({.most_delay = 10s, .more_may_come = [] { return false; }}, {});
  EXPECT_EQ(Compute(alone, 4, &batches), 16);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 8s);
}

TEST(Engine, TellsOfItsBatches) {
  std::promise<BatchReport> told;
  Engine engine({}, [&](const BatchReport& report) { told.set_value(report); });
  Compute(engine, {"digits", "images"}, [] { std::this_thread::sleep_for(20ms); });
  const BatchReport report = told.get_future().get();
  EXPECT_EQ(report.labels.model, "digits");
  EXPECT_EQ(report.tasks, 1);
  EXPECT_GE(report.computed, 0.019);
}

}  // namespace
}  // namespace qkv::server
