#include "python/src/interpreter_lock.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace qkv::python {
namespace {

std::atomic<bool> g_leaving{false};
thread_local bool t_leads = false;  // this thread leads the interpreter's end, and may go on
std::atomic<int> g_asking{0};       // threads that wait for the lock

void BeginAsking() {
  ++g_asking;
  if (!IsLeaving()) return;
  --g_asking;
  for (;;) std::this_thread::sleep_for(std::chrono::hours(24));
}
void EndAsking() { --g_asking; }

// Called by atexit. Threads that wait for the lock get it, and later ones do not ask.
void Leave() {
  t_leads = true, g_leaving = true;
  const WithoutLock others;
  while (g_asking > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

void WatchExit() { nb::module_::import_("atexit").attr("register")(nb::cpp_function(&Leave)); }

bool IsLeaving() { return g_leaving && !t_leads; }

WithoutLock::~WithoutLock() {
  BeginAsking();
  PyEval_RestoreThread(state_);
  EndAsking();
}

WithLock::WithLock() {
  BeginAsking();
  state_ = PyGILState_Ensure();
  EndAsking();
}

}  // namespace qkv::python
