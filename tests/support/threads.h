// The number of threads, put back when a test ends, however it ends.
#pragma once

#include "qkv/core/parallel.h"

namespace qkv {

class RestoreThreads {
 public:
  RestoreThreads() = default;
  RestoreThreads(const RestoreThreads&) = delete;
  RestoreThreads& operator=(const RestoreThreads&) = delete;
  ~RestoreThreads() { SetNumThreads(threads_); }

 private:
  const int threads_ = NumThreads();
};

}  // namespace qkv
