// Calls of the system that fail, or during which the process is killed, when a test asks for it. faults.cc takes the
// place of the C library's functions in the test that it is linked into.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace qkv {

/// The calls that are counted: those that make a file durable, or change what a name leads to.
enum class SystemCall { kFsync, kSymlink, kNames };  // kNames: rename, renameat2, unlink

/// The `number`-th call (from 1) of this kind fails with `error` (ENOSPC, …). 0: none.
void FailCalls(SystemCall call, int number, int error);
/// The process ends by SIGKILL right after the `number`-th call (from 1) of kNames is done. 0: never.
void KillAfterNames(int number);

/// True if `work` in a child process was killed; false if it came to its end. Threads of this process do not exist in
/// the child.
template <typename Work>
bool IsKilled(Work work) {
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
  }
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

}  // namespace qkv
