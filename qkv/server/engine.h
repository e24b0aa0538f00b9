// One queue for all computations: a pass uses every core, so two at a time would be slower than one after the other
// (core/parallel.h). Clients take turns (fair_queue.h). Tasks of one kind that wait at the same time are computed
// together, for up to a few tens of milliseconds.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
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
#include "qkv/server/fair_queue.h"

namespace qkv::server {

struct TaskLabels {
  std::string model, work;
};

/// Priorities of tasks, lowest first. Between its steps (Engine::GiveWay) a task gives way to those of higher classes,
/// but to none of its own: tasks of one class may share data, and at most one of each is in progress.
enum class TaskClass {
  kLong,      // texts that take longer than about a second
  kExplorer,  // calls of the explorer's page, however long
  kShort,     // texts that take about a second at most
  kWhole,     // without steps: batches of some tens of milliseconds
};

/// Work for the engine's thread.
class Task {
 public:
  virtual ~Task() = default;
  /// Tasks with the same key may be computed together; a task without one is computed alone.
  virtual std::string Key() const { return {}; }
  /// Whether it can be computed with another of its key.
  virtual bool Joins(const Task& /*other*/) const { return true; }
  /// Labels in the counters: the model's id and the kind of work.
  virtual TaskLabels Labels() const { return {}; }
  /// Images or texts in it.
  virtual int64_t size() const { return 1; }
  /// Its share of a batch (EngineOptions::most_together).
  virtual int64_t rows() const { return size(); }
  /// Estimate of its arithmetic, to which its time is proportional; 0: it takes as long as others with its labels.
  virtual double operations() const { return 0; }
  /// Tasks of all classes but kWhole give way between their steps, and time does not bound their batch.
  virtual TaskClass task_class() const { return TaskClass::kWhole; }
  /// Computes all of `batch`, which holds this task and others with its key, and stores each result in its task.
  /// Results must not depend on each other. It is cancelled (core/work.h) once no caller of the batch waits.
  virtual void Run(std::span<Task* const> batch) = 0;
};

struct EngineOptions {
  int64_t most_together = 32;                  // images or texts of one batch, and beams of texts
  double most_seconds = 0.04;                  // of one batch, as predicted; but one image or text at least
  std::chrono::microseconds most_delay{2000};  // that a task waits for others of its key
  std::function<bool()> more_may_come;         // false: no task is on its way to the queue, so waiting is useless
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

  /// Waits until the task has been computed, on the engine's thread; throws what it threw. Throws Cancelled soon after
  /// `cancelled`, which is called from several threads, returns true; a task that has begun may then still be computed
  /// for others, so it owns its data. Must not be called by a task.
  void Compute(const std::shared_ptr<Task>& task, Turn& turn, const std::function<bool()>& cancelled);
  /// The same for a function, alone. It may use the caller's memory: if it has begun, the caller waits for its end,
  /// which is soon if it checks for cancellation. Functions of all classes but kWhole call GiveWay between their steps.
  void Compute(const TaskLabels& labels, const std::function<void()>& work, TaskClass task_class, Turn& turn,
               const std::function<bool()>& cancelled);
  /// Called by a task between its steps: computes one batch of higher priority, so that neither waits for long.
  void GiveWay();

  /// Number of waiting tasks.
  int64_t waiting() const;
  /// The same by the model of their labels.
  std::map<std::string, int64_t> WaitingByModel() const;
  /// Predicted seconds until all waiting and running work is done.
  double ExpectedWait() const;
  /// Predicted seconds of so many operations, or of so many images or texts if these are 0: by earlier tasks with these
  /// labels, or by a guess.
  double Predict(const TaskLabels& labels, double operations, int64_t size = 1) const;
  /// How many of these images or texts, from the first, make a batch: one at least. operations: of each.
  int64_t Together(const TaskLabels& labels, std::span<const double> operations) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry : QueuedWork {
    std::shared_ptr<Task> task;
    std::string key;
    Clock::time_point since;
    std::function<bool()> cancelled;
    std::atomic<bool> left = false;  // its caller has left
    bool begun = false, done = false;
    double queued = 0, computed = 0;  // seconds
    std::exception_ptr error;
    std::condition_variable finished;

    bool IsWanted() const { return !left && !(cancelled && cancelled()); }
    bool IsLike(const Entry& first) const { return !key.empty() && key == first.key && task->Joins(*first.task); }
  };
  using Batch = std::vector<std::shared_ptr<Entry>>;

  void Wait(const std::shared_ptr<Entry>& entry, Turn& turn, bool may_leave);
  void Work();
  std::shared_ptr<Entry> First(bool wait) const;
  Batch Next(std::unique_lock<std::mutex>& lock, bool wait);
  void AwaitOthers(std::unique_lock<std::mutex>& lock);
  bool IsFull(const Entry& first) const;
  void RunBatch(const Batch& batch);
  void Finish(const Batch& batch);
  double PredictLocked(const TaskLabels& labels, double operations, int64_t size) const;
  void Learn(const Batch& batch, double seconds);

  const EngineOptions options_;
  const std::function<void(const BatchReport&)> report_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  FairQueue queue_;
  bool stopped_ = false;
  double running_ = 0;  // predicted seconds of the running batch
  struct Kind {
    std::string model, work;
    bool by_operations = false;
    auto operator<=>(const Kind&) const = default;
  };
  std::map<Kind, double> unit_seconds_;  // of an operation, or of an image or text; running means
  // Used by the engine's thread only:
  double given_ = 0;                             // seconds that the running task gave to others
  TaskClass running_class_ = TaskClass::kWhole;  // of the running task
  std::thread thread_;
};

}  // namespace qkv::server
