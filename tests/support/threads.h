// Sets the number of threads for a test and restores it on exit.
#pragma once

#include "qkv/core/parallel.h"

namespace qkv {

class RestoreThreads {
 public:
  RestoreThreads() {}  // not defaulted: a const member may be of it
  RestoreThreads(const RestoreThreads&) = delete;
  RestoreThreads& operator=(const RestoreThreads&) = delete;
  ~RestoreThreads() { SetNumThreads(threads_); }

 private:
  const int threads_ = NumThreads();
};

}  // namespace qkv
