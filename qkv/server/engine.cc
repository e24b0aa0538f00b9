#include "qkv/server/engine.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/parallel.h"

namespace qkv::server {
namespace {

// Interval at which a waiting caller checks whether its client has gone.
constexpr std::chrono::milliseconds kLook{25};
// Used until measured: operations that a core does in a second, and seconds of a task of unknown operations.
constexpr double kOperationsPerSecond = 3e10, kUsualSeconds = 0.01;
constexpr double kLeastSeconds = 1e-6;  // of a task: all work costs something
// Weight of the last measurement in a running mean.
constexpr double kNewest = 0.2;

double SecondsBetween(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

class FunctionTask final : public Task {
 public:
  FunctionTask(const TaskLabels& labels, const std::function<void()>& work, TaskClass task_class)
      : labels_(labels), work_(work), class_(task_class) {}
  TaskLabels Labels() const override { return labels_; }
  TaskClass task_class() const override { return class_; }
  void Run(std::span<Task* const>) override { work_(); }

 private:
  const TaskLabels& labels_;
  const std::function<void()>& work_;
  const TaskClass class_;
};

}  // namespace

Engine::Engine(const EngineOptions& options, std::function<void(const BatchReport&)> report)
    : options_(options), report_(std::move(report)), thread_([this] { Work(); }) {}

Engine::~Engine() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Engine::Compute(const std::shared_ptr<Task>& task, Turn& turn, const std::function<bool()>& cancelled) {
  const auto entry = std::make_shared<Entry>();
  entry->task = task;
  entry->cancelled = cancelled;
  Wait(entry, turn, /*may_leave=*/true);
}

void Engine::Compute(const TaskLabels& labels, const std::function<void()>& work, TaskClass task_class, Turn& turn,
                     const std::function<bool()>& cancelled) {
  const auto entry = std::make_shared<Entry>();
  entry->task = std::make_shared<FunctionTask>(labels, work, task_class);
  entry->cancelled = cancelled;
  Wait(entry, turn, /*may_leave=*/false);
}

void Engine::Wait(const std::shared_ptr<Entry>& entry, Turn& turn, bool may_leave) {
  const Task& task = *entry->task;
  entry->key = task.Key();
  entry->since = Clock::now();
  std::unique_lock lock(mutex_);
  if (stopped_) throw Cancelled();
  entry->cost = PredictLocked(task.Labels(), task.operations(), task.size());
  queue_.Add(entry, turn);
  changed_.notify_all();
  while (!entry->done) {
    entry->finished.wait_for(lock, kLook);
    if (entry->done || (entry->begun && !may_leave) || entry->IsWanted()) continue;
    queue_.Remove(entry);
    entry->left = true;
    throw Cancelled();
  }
  turn.finish = entry->finish;
  turn.queued += entry->queued, turn.computed += entry->computed;
  if (entry->error) std::rethrow_exception(entry->error);
}

int64_t Engine::waiting() const {
  const std::lock_guard lock(mutex_);
  return queue_.size();
}

std::map<std::string, int64_t> Engine::WaitingByModel() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, int64_t> waiting;
  queue_.ForEach([&](const QueuedWork& work) { ++waiting[static_cast<const Entry&>(work).task->Labels().model]; });
  return waiting;
}

double Engine::ExpectedWait() const {
  const std::lock_guard lock(mutex_);
  return running_ + queue_.cost();
}

double Engine::Predict(const TaskLabels& labels, double operations, int64_t size) const {
  const std::lock_guard lock(mutex_);
  return PredictLocked(labels, operations, size);
}

double Engine::PredictLocked(const TaskLabels& labels, double operations, int64_t size) const {
  const auto known = unit_seconds_.find({labels.model, labels.work, operations > 0});
  const double usual = operations > 0 ? 1 / (kOperationsPerSecond * NumThreads()) : kUsualSeconds;
  const double each = known == unit_seconds_.end() ? usual : known->second;
  return std::max(kLeastSeconds, each * (operations > 0 ? operations : static_cast<double>(size)));
}

int64_t Engine::Together(const TaskLabels& labels, std::span<const double> operations) const {
  const std::lock_guard lock(mutex_);
  const int64_t most = std::clamp<int64_t>(std::ssize(operations), 1, std::max<int64_t>(1, options_.most_together));
  double sum = operations[0];
  int64_t count = 1;
  for (; count < most; ++count) {
    sum += operations[static_cast<size_t>(count)];
    if (PredictLocked(labels, sum, count + 1) > options_.most_seconds) break;
  }
  return count;
}

void Engine::Learn(const Batch& batch, double seconds) {
  double operations = 0, size = 0;
  for (const auto& entry : batch) {
    if (entry->error) return;  // it ended early
    operations += entry->task->operations(), size += static_cast<double>(entry->task->size());
  }
  const double units = operations > 0 ? operations : size;
  if (!(units > 0)) return;
  const TaskLabels labels = batch[0]->task->Labels();
  const Kind kind{labels.model, labels.work, operations > 0};
  const auto [known, is_new] = unit_seconds_.try_emplace(kind, seconds / units);
  if (!is_new) known->second += kNewest * (seconds / units - known->second);
}

// With `wait` any task, without it one that the running task yields to.
std::shared_ptr<Engine::Entry> Engine::First(bool wait) const {
  return std::static_pointer_cast<Entry>(queue_.First([&](const QueuedWork& work) {
    return wait || static_cast<const Entry&>(work).task->task_class() > running_class_;
  }));
}

// True if waiting tasks with this one's key fill a batch.
bool Engine::IsFull(const Entry& first) const {
  int64_t rows = 0;
  double cost = 0;
  queue_.ForEach([&](const QueuedWork& work) {
    const auto& entry = static_cast<const Entry&>(work);
    if (entry.IsLike(first)) rows += entry.task->rows(), cost += entry.cost;
  });
  return rows >= options_.most_together ||
         (first.task->task_class() == TaskClass::kWhole && cost >= options_.most_seconds);
}

// Waits a moment for more tasks with the first one's key.
void Engine::AwaitOthers(std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<Entry> first = First(/*wait=*/true);
  if (!first || first->key.empty()) return;
  changed_.wait_until(lock, first->since + options_.most_delay, [&] {
    const std::shared_ptr<Entry> now = First(/*wait=*/true);
    return stopped_ || !now || !now->IsLike(*first) || IsFull(*now) ||
           (options_.more_may_come && !options_.more_may_come());
  });
}

// The task whose turn it is, and others with its key. With `wait` it waits for a task, and then a moment for more of
// them; without it, at once, only tasks that the running one yields to.
Engine::Batch Engine::Next(std::unique_lock<std::mutex>& lock, bool wait) {
  if (wait) {
    changed_.wait(lock, [&] { return stopped_ || queue_.size() > 0; });
    AwaitOthers(lock);
  }
  std::shared_ptr<Entry> next = First(wait);
  Batch batch;
  int64_t rows = 0;
  double cost = 0;
  while (next) {
    rows += next->task->rows(), cost += next->cost;
    next->begun = true;
    queue_.Take(next);
    batch.push_back(std::move(next));
    const Entry& first = *batch[0];
    next = std::static_pointer_cast<Entry>(queue_.First([&](const QueuedWork& work) {
      const auto& entry = static_cast<const Entry&>(work);
      return entry.IsLike(first) && rows + entry.task->rows() <= options_.most_together &&
             (first.task->task_class() != TaskClass::kWhole || cost + entry.cost <= options_.most_seconds);
    }));
  }
  running_ += cost;
  return batch;
}

void Engine::RunBatch(const Batch& batch) {
  const auto is_wanted = [](const std::shared_ptr<Entry>& entry) { return entry->IsWanted(); };
  const CancelScope scope([&] { return std::ranges::none_of(batch, is_wanted); });
  std::vector<Task*> tasks;
  for (const auto& entry : batch) tasks.push_back(entry->task.get());
  try {
    tasks[0]->Run(tasks);
  } catch (const Cancelled&) {
    for (const auto& entry : batch) entry->error = std::current_exception();
  } catch (...) {
    if (tasks.size() == 1) {
      batch[0]->error = std::current_exception();
      return;
    }
    // One task is at fault: running each alone gives the others their answers.
    for (const auto& entry : batch) RunBatch({entry});
  }
}

void Engine::Finish(const Batch& batch) {
  const Clock::time_point start = Clock::now();
  BatchReport report;
  report.labels = batch[0]->task->Labels();
  report.tasks = std::ssize(batch);
  double cost = 0;
  for (const auto& entry : batch) {
    report.size += entry->task->size();
    entry->queued = SecondsBetween(entry->since, start);
    report.waited.push_back(entry->queued);
    cost += entry->cost;
  }
  const double given = std::exchange(given_, 0);
  const TaskClass outer = std::exchange(running_class_, batch[0]->task->task_class());
  RunBatch(batch);
  running_class_ = outer;
  const double all = SecondsBetween(start, Clock::now());
  report.computed = all;
  const double own = all - given_;
  given_ = given + all;
  if (report_) report_(report);  // before its callers may ask for the counters
  {
    const std::lock_guard lock(mutex_);
    running_ -= cost;
    Learn(batch, own);
    for (const auto& entry : batch) {
      queue_.Finish(entry, own * entry->cost / cost);
      entry->computed = own;
      entry->done = true;
      entry->finished.notify_one();
    }
  }
}

void Engine::GiveWay() {
  std::unique_lock lock(mutex_);
  const Batch batch = Next(lock, /*wait=*/false);
  if (batch.empty()) return;
  lock.unlock();
  Finish(batch);
}

void Engine::Work() {
  for (;;) {
    std::unique_lock lock(mutex_);
    const Batch batch = Next(lock, /*wait=*/true);
    if (batch.empty()) {
      if (stopped_ && queue_.size() == 0) return;
      continue;
    }
    lock.unlock();
    Finish(batch);
  }
}

}  // namespace qkv::server
