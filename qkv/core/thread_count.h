// Threads for the loops of one caller.
#pragma once

namespace qkv {

/// While it lives, parallel loops that this thread starts have so many threads (NumThreads, parallel.h), whatever
/// SetNumThreads says meanwhile. Throws Error when `threads` < 1.
class ThreadCount {
 public:
  explicit ThreadCount(int threads);
  ~ThreadCount();
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  const int before_;
};

}  // namespace qkv
