// The interpreter's lock, given up and taken by threads that may outlive the interpreter: CPython ends a daemon thread
// that asks for the lock after sys.exit by unwinding it, which no frame of C++ survives. Such a thread sleeps here
// instead.
#pragma once

#include <nanobind/nanobind.h>

namespace qkv::python {

namespace nb = nanobind;

/// Registers with atexit what ends all computations and keeps their threads from the lock.
void WatchExit();

/// True once the interpreter leaves, except for the thread that leads it: nothing is wanted any more.
bool IsLeaving();

/// While it lives, this thread is without the lock.
class WithoutLock {
 public:
  WithoutLock() : state_(PyEval_SaveThread()) {}
  ~WithoutLock();
  WithoutLock(const WithoutLock&) = delete;
  WithoutLock& operator=(const WithoutLock&) = delete;

 private:
  PyThreadState* const state_;
};

/// While it lives, this thread, of Python or not, has the lock.
class WithLock {
 public:
  WithLock();
  ~WithLock() { PyGILState_Release(state_); }
  WithLock(const WithLock&) = delete;
  WithLock& operator=(const WithLock&) = delete;

 private:
  PyGILState_STATE state_;
};

}  // namespace qkv::python
