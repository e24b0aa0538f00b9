// One queue for all computations: a pass uses every core, so two at a time would be slower than one after the other
// (core/parallel.h). Tasks of one kind that wait at the same time are computed together.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "qkv/core/work.h"

namespace qkv::server {

struct TaskLabels {
  std::string model, work;
};

/// Work for the engine's thread.
class Task {
 public:
  virtual ~Task() = default;
  /// Tasks of one key may be computed together; a task without one is computed alone.
  virtual std::string Key() const { return {}; }
  /// What counters name it by: the model's id and the kind of work.
  virtual TaskLabels Labels() const { return {}; }
  /// Images or texts in it.
  virtual int64_t size() const { return 1; }
  /// What it takes of a batch (EngineOptions::most_together).
  virtual int64_t rows() const { return size(); }
  /// True while a long task, which gives way between its steps (Engine::GiveWay), lets this one go first.
  virtual bool is_short() const { return true; }
  /// Computes all of `batch`, which holds this task and others of its key, and leaves each result in its task. None may
  /// depend on the others.
  virtual void Run(std::span<Task* const> batch) = 0;
};

struct EngineOptions {
  int64_t most_together = 32;                  // images or texts of one batch, and beams of texts
  std::chrono::microseconds most_delay{2000};  // that a task waits for others of its key
  std::function<bool()> more_may_come;         // false: nothing is on its way to the queue, so waiting is in vain
};

/// Sizes and times of a batch, for counters.
struct BatchReport {
  TaskLabels labels;
  int64_t tasks = 0, size = 0;  // size: images or texts
  std::vector<double> waited;   // seconds of each task in the queue
  double computed = 0;          // seconds
};

class Engine {
 public:
  Engine(const EngineOptions& options, std::function<void(const BatchReport&)> report);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Waits until the task has been computed, on the engine's thread; throws what it threw. Throws Cancelled if
  /// `cancelled` becomes true before it begins. Must not be called by a task.
  void Compute(Task& task, const std::function<bool()>& cancelled);
  /// The same for a function, alone. A long one calls GiveWay between its steps.
  void Compute(const TaskLabels& labels, const std::function<void()>& work, bool is_short,
               const std::function<bool()>& cancelled);
  /// Called by a long task: computes one batch of the short ones that wait, so that neither waits for long.
  void GiveWay();

  /// Tasks that wait.
  int64_t waiting() const;
  /// The same by the model of their labels.
  std::map<std::string, int64_t> WaitingByModel() const;
  /// Seconds until a new task may begin, from the recent ones.
  double ExpectedWait() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    Task* task = nullptr;
    std::string key;
    Clock::time_point since;
    const std::function<bool()>* cancelled = nullptr;
    bool done = false;
    std::exception_ptr error;
    std::condition_variable finished;
  };

  void Work();
  std::vector<Entry*> Next(std::unique_lock<std::mutex>& lock, bool wait);
  void RunBatch(const std::vector<Entry*>& batch);
  void Finish(const std::vector<Entry*>& batch);

  const EngineOptions options_;
  const std::function<void(const BatchReport&)> report_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry*> queue_;
  bool stopped_ = false;
  double recent_seconds_ = 0.01;  // of a batch, a running mean
  std::thread thread_;
};

}  // namespace qkv::server
