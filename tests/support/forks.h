// Work in a child process.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>

namespace qkv {

/// Calls `work` in a forked child, which then exits as a program does. Returns whether it exited with the value that
/// `work` returned last, within a minute.
inline testing::AssertionResult ExitsAfter(int value, const std::function<int()>& work) {
  std::fflush(nullptr);  // or the child's exit writes it again
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);  // one that hangs
    std::exit(work());
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return testing::AssertionFailure() << "no child";
  if (WIFEXITED(status) && WEXITSTATUS(status) == value) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "the child's status is " << status;
}

}  // namespace qkv
