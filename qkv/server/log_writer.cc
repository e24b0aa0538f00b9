#include "qkv/server/log_writer.h"

#include <utility>

namespace qkv::server {
namespace {

constexpr int64_t kMaxWaiting = 10'000;

}  // namespace

LogWriter::LogWriter(std::function<void(const io::Json&)> write) : write_(std::move(write)) {
  if (write_) thread_ = std::thread([this] { Work(); });
}

LogWriter::~LogWriter() {
  if (!write_) return;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void LogWriter::Write(io::Json line) {
  if (!write_) return;
  const std::lock_guard lock(mutex_);
  if (std::ssize(lines_) >= kMaxWaiting) {
    ++dropped_;
    return;
  }
  if (dropped_ > 0) {
    io::Json note = {{"level", "warning"}, {"event", "dropped"}, {"lines", std::exchange(dropped_, 0)}};
    if (line.contains("time")) note["time"] = line["time"];
    lines_.push_back(std::move(note));
  }
  lines_.push_back(std::move(line));
  changed_.notify_one();
}

bool LogWriter::Flush(std::chrono::milliseconds limit) {
  if (!write_) return true;
  std::unique_lock lock(mutex_);
  return written_.wait_for(lock, limit, [&] { return lines_.empty() && !writing_; });
}

void LogWriter::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopped_ || !lines_.empty(); });
    if (lines_.empty()) return;
    const io::Json line = std::move(lines_.front());
    lines_.pop_front();
    writing_ = true;
    lock.unlock();
    write_(line);
    lock.lock();
    writing_ = false;
    if (lines_.empty()) written_.notify_all();
  }
}

}  // namespace qkv::server
