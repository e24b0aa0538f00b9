// Loops that keep to their own thread.
#pragma once

namespace qkv {

/// While it lives, loops (parallel.h) that the current thread starts run on that thread alone: for work beside a thread
/// whose loops need the pool.
class SerialLoops {
 public:
  SerialLoops();
  ~SerialLoops();
  SerialLoops(const SerialLoops&) = delete;
  SerialLoops& operator=(const SerialLoops&) = delete;

 private:
  bool before_;
};

/// True on a thread that works on a loop of several threads, and while a SerialLoops of this thread lives.
bool InLoop();

}  // namespace qkv
