#include "qkv/server/engine.h"

#include <algorithm>

#include "qkv/core/error.h"

namespace qkv::server {
namespace {

// How often a waiting caller looks whether its client has gone.
constexpr std::chrono::milliseconds kLook{50};

double SecondsBetween(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

class FunctionTask final : public Task {
 public:
  FunctionTask(const TaskLabels& labels, const std::function<void()>& work, bool is_short)
      : labels_(labels), work_(work), short_(is_short) {}
  TaskLabels Labels() const override { return labels_; }
  bool is_short() const override { return short_; }
  void Run(std::span<Task* const>) override { work_(); }

 private:
  const TaskLabels& labels_;
  const std::function<void()>& work_;
  const bool short_;
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

void Engine::Compute(Task& task, const std::function<bool()>& cancelled) {
  Entry entry{.task = &task, .key = task.Key(), .since = Clock::now(), .cancelled = &cancelled};
  std::unique_lock lock(mutex_);
  if (stopped_) throw Cancelled();
  queue_.push_back(&entry);
  changed_.notify_all();
  while (!entry.done) {
    entry.finished.wait_for(lock, kLook);
    const auto place = std::find(queue_.begin(), queue_.end(), &entry);
    if (place != queue_.end() && cancelled && cancelled()) {
      queue_.erase(place);
      throw Cancelled();
    }
  }
  if (entry.error) std::rethrow_exception(entry.error);
}

void Engine::Compute(const TaskLabels& labels, const std::function<void()>& work, bool is_short,
                     const std::function<bool()>& cancelled) {
  FunctionTask task(labels, work, is_short);
  Compute(task, cancelled);
}

int64_t Engine::waiting() const {
  const std::lock_guard lock(mutex_);
  return std::ssize(queue_);
}

std::map<std::string, int64_t> Engine::WaitingByModel() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, int64_t> waiting;
  for (const Entry* entry : queue_) ++waiting[entry->task->Labels().model];
  return waiting;
}

double Engine::ExpectedWait() const {
  const std::lock_guard lock(mutex_);
  return static_cast<double>(queue_.size() + 1) * recent_seconds_;
}

// The oldest task and those of its key behind it. With `wait` it waits for a task, and then a moment for more of them;
// without it only short tasks are taken, at once.
std::vector<Engine::Entry*> Engine::Next(std::unique_lock<std::mutex>& lock, bool wait) {
  const auto first = [&] {
    return std::find_if(queue_.begin(), queue_.end(), [&](const Entry* e) { return wait || e->task->is_short(); });
  };
  if (wait) changed_.wait(lock, [&] { return stopped_ || !queue_.empty(); });
  if (first() == queue_.end()) return {};
  const std::string key = (*first())->key;
  const auto together = [&] {
    int64_t rows = 0;
    for (const Entry* entry : queue_) rows += entry->key == key ? entry->task->rows() : 0;
    return rows;
  };
  if (wait && !key.empty()) {
    const Clock::time_point until = (*first())->since + options_.most_delay;
    changed_.wait_until(lock, until, [&] {
      return stopped_ || first() == queue_.end() || (*first())->key != key || together() >= options_.most_together ||
             (options_.more_may_come && !options_.more_may_come());
    });
    if (first() == queue_.end()) return {};
  }
  std::vector<Entry*> batch = {*first()};
  queue_.erase(first());
  int64_t rows = batch[0]->task->rows();
  for (auto entry = queue_.begin(); !batch[0]->key.empty() && entry != queue_.end();) {
    const bool fits = (*entry)->key == batch[0]->key && rows + (*entry)->task->rows() <= options_.most_together;
    if (!fits) {
      ++entry;
      continue;
    }
    rows += (*entry)->task->rows();
    batch.push_back(*entry);
    entry = queue_.erase(entry);
  }
  return batch;
}

void Engine::RunBatch(const std::vector<Entry*>& batch) {
  std::vector<Task*> tasks;
  for (Entry* entry : batch) tasks.push_back(entry->task);
  try {
    tasks[0]->Run(tasks);
  } catch (...) {
    if (tasks.size() == 1) {
      batch[0]->error = std::current_exception();
      return;
    }
    // One of them is at fault: the others get their answers.
    for (Entry* entry : batch) RunBatch({entry});
  }
}

void Engine::Finish(const std::vector<Entry*>& batch) {
  const Clock::time_point start = Clock::now();
  BatchReport report;
  report.labels = batch[0]->task->Labels();
  report.tasks = std::ssize(batch);
  for (const Entry* entry : batch) {
    report.size += entry->task->size();
    report.waited.push_back(SecondsBetween(entry->since, start));
  }
  RunBatch(batch);
  report.computed = SecondsBetween(start, Clock::now());
  {
    const std::lock_guard lock(mutex_);
    recent_seconds_ += 0.1 * (report.computed - recent_seconds_);
    for (Entry* entry : batch) {
      entry->done = true;
      entry->finished.notify_one();
    }
  }
  if (report_) report_(report);
}

void Engine::GiveWay() {
  std::unique_lock lock(mutex_);
  const std::vector<Entry*> batch = Next(lock, /*wait=*/false);
  if (batch.empty()) return;
  lock.unlock();
  Finish(batch);
}

void Engine::Work() {
  for (;;) {
    std::unique_lock lock(mutex_);
    const std::vector<Entry*> batch = Next(lock, /*wait=*/true);
    if (batch.empty()) {
      if (stopped_ && queue_.empty()) return;
      continue;
    }
    lock.unlock();
    Finish(batch);
  }
}

}  // namespace qkv::server
