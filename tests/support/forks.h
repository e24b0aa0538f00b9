// Work in a child process.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>

namespace qkv {

#ifndef __has_feature
#define __has_feature(name) 0
#endif
/// How a child ends: as a program does; with AddressSanitizer without its search for leaks, which finds what threads of
/// the parent held.
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
inline constexpr auto kEndOfChild = std::_Exit;
#else
inline constexpr auto kEndOfChild = std::exit;
#endif

/// Calls `work` in a forked child, which then exits. Returns whether it exited with the value that
/// `work` returned last, within a minute.
inline testing::AssertionResult ExitsAfter(int value, const std::function<int()>& work) {
  std::fflush(nullptr);  // or the child's exit writes it again
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);  // one that hangs
    kEndOfChild(work());
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return testing::AssertionFailure() << "no child";
  if (WIFEXITED(status) && WEXITSTATUS(status) == value) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "the child's status is " << status;
}

}  // namespace qkv
