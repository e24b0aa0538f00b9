#include "tests/support/faults.h"

#include <fcntl.h>
#include <sys/syscall.h>

#include <array>
#include <atomic>
#include <cerrno>

namespace qkv {
namespace {

std::array<std::atomic<int>, 3> counts, failures, errors;
std::atomic<int> killed_after = 0;

// Sets errno if this call is to fail.
bool Fails(SystemCall call) {
  const auto i = static_cast<size_t>(call);
  const int number = ++counts[i], failing = failures[i];
  if (number != failing) return false;
  errno = errors[i];
  return true;
}

int Done(long result) {
  if (killed_after > 0 && counts[static_cast<size_t>(SystemCall::kNames)] == killed_after) ::kill(::getpid(), SIGKILL);
  return static_cast<int>(result);
}

}  // namespace

void FailCalls(SystemCall call, int number, int error) {
  const auto i = static_cast<size_t>(call);
  counts[i] = 0, errors[i] = error, failures[i] = number;
}

void KillAfterNames(int number) {
  counts[static_cast<size_t>(SystemCall::kNames)] = 0;
  killed_after = number;
}

}  // namespace qkv

using qkv::Done;
using qkv::Fails;
using qkv::SystemCall;

extern "C" {
int fsync(int file) { return Fails(SystemCall::kFsync) ? -1 : static_cast<int>(::syscall(SYS_fsync, file)); }

int symlink(const char* target, const char* link) noexcept {
  return Fails(SystemCall::kSymlink) ? -1 : static_cast<int>(::syscall(SYS_symlinkat, target, AT_FDCWD, link));
}

int rename(const char* from, const char* to) noexcept {
  return Fails(SystemCall::kNames) ? -1 : Done(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  return Fails(SystemCall::kNames) ? -1 : Done(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}

int unlink(const char* file) noexcept {
  return Fails(SystemCall::kNames) ? -1 : Done(::syscall(SYS_unlinkat, AT_FDCWD, file, 0));
}
}
