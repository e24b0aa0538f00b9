#include "qkv/openslide/sandbox.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "qkv/slide/read/openslide_protocol.h"

void LimitResources(uint64_t address_space) {
  const auto limit = [](auto resource, rlim_t most) {
    const rlimit both = {most, most};
    setrlimit(resource, &both);
  };
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, 0);
  limit(RLIMIT_NOFILE, 256);
  limit(RLIMIT_AS, address_space);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

#if defined(__x86_64__)
#define QKV_AUDIT_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define QKV_AUDIT_ARCH AUDIT_ARCH_AARCH64
#endif

#ifdef QKV_AUDIT_ARCH
namespace {

// Calls that are allowed with any arguments: memory, reading what is open, looking for files, time, its own signals.
constexpr int kAllowed[] = {
    SYS_read,          SYS_pread64,      SYS_readv,        SYS_preadv,
    SYS_lseek,         SYS_close,        SYS_fstat,        SYS_newfstatat,
    SYS_statx,         SYS_fstatfs,      SYS_statfs,       SYS_faccessat,
    SYS_getdents64,    SYS_readlinkat,   SYS_getcwd,       SYS_fadvise64,
    SYS_dup,           SYS_munmap,       SYS_mremap,       SYS_madvise,
    SYS_brk,           SYS_futex,        SYS_sched_yield,  SYS_sched_getaffinity,
    SYS_clock_gettime, SYS_gettimeofday, SYS_nanosleep,    SYS_clock_nanosleep,
    SYS_getrandom,     SYS_getpid,       SYS_gettid,       SYS_getuid,
    SYS_geteuid,       SYS_getgid,       SYS_getegid,      SYS_uname,
    SYS_sysinfo,       SYS_getrusage,    SYS_rt_sigaction, SYS_rt_sigprocmask,
    SYS_rt_sigreturn,  SYS_sigaltstack,  SYS_setitimer,    SYS_restart_syscall,
    SYS_exit,          SYS_exit_group,
#ifdef __x86_64__
    SYS_stat,          SYS_lstat,        SYS_access,       SYS_readlink,
    SYS_alarm,         SYS_time,         SYS_arch_prctl,
#endif
};

// The lower half of an argument, which these processors store first.
constexpr unsigned ArgumentOffset(int index) { return offsetof(seccomp_data, args) + 8 * static_cast<unsigned>(index); }

// The filter's program: a list of instructions that grows.
struct Program {
  sock_filter code[256];
  unsigned short size = 0;

  void Add(sock_filter instruction) { code[size++] = instruction; }
  void Load(unsigned offset) { Add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)); }
  void Return(unsigned value) { Add(BPF_STMT(BPF_RET | BPF_K, value)); }
  // Skips the next `count` instructions unless the loaded value is `value`.
  void Unless(unsigned value, unsigned char count) { Add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, count)); }
  // Allows call `number` if `argument` and `mask` have no bit in common.
  void AllowWithout(int number, int argument, unsigned mask) {
    Unless(static_cast<unsigned>(number), 4);
    Load(ArgumentOffset(argument));
    Add(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, mask, 1, 0));
    Return(SECCOMP_RET_ALLOW);
    Return(kRefused);
  }
  // Allows call `number` if `argument` is `value`.
  void AllowIf(int number, int argument, unsigned value) {
    Unless(static_cast<unsigned>(number), 4);
    Load(ArgumentOffset(argument));
    Unless(value, 1);
    Return(SECCOMP_RET_ALLOW);
    Return(kRefused);
  }

  static constexpr unsigned kRefused = SECCOMP_RET_ERRNO | 1;  // EPERM
};

}  // namespace

void LimitSystemCalls() {
  Program program;
  program.Load(offsetof(seccomp_data, arch));
  program.Add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, QKV_AUDIT_ARCH, 1, 0));
  program.Return(SECCOMP_RET_KILL_PROCESS);
  program.Load(offsetof(seccomp_data, nr));
  for (const int number : kAllowed) {
    program.Unless(static_cast<unsigned>(number), 1);
    program.Return(SECCOMP_RET_ALLOW);
  }
  // Only the reply is written.
  program.AllowIf(SYS_write, 0, qkv::slide::openslide::kSocket);
  // Only for reading.
  constexpr unsigned kWriting = O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND | (O_TMPFILE & ~O_DIRECTORY);
  program.AllowWithout(SYS_openat, 2, kWriting);
#ifdef SYS_open
  program.AllowWithout(SYS_open, 1, kWriting);
#endif
  // Memory that is written to never becomes code. Modules of libraries are still mapped, from files.
  program.AllowWithout(SYS_mprotect, 2, PROT_EXEC);
  program.Unless(SYS_mmap, 5);
  program.Load(ArgumentOffset(2));
  program.Add(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, PROT_WRITE | PROT_EXEC));
  program.Add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROT_WRITE | PROT_EXEC, 1, 0));
  program.Return(SECCOMP_RET_ALLOW);
  program.Return(Program::kRefused);
  // Copies of descriptors, their flags, locks; no signals when something arrives.
  program.Unless(SYS_fcntl, 5);
  program.Load(ArgumentOffset(1));
  program.Add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_DUPFD_CLOEXEC, 1, 0));
  program.Add(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, F_SETOWN, 1, 0));
  program.Return(SECCOMP_RET_ALLOW);
  program.Return(Program::kRefused);
  // abort() signals its own thread.
  program.AllowIf(SYS_tgkill, 0, static_cast<unsigned>(getpid()));
  // Limits are asked for, not set.
  program.AllowIf(SYS_prlimit64, 2, 0);
  program.Return(Program::kRefused);
  const sock_fprog filter = {program.size, program.code};
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0);
}
#else
void LimitSystemCalls() {}
#endif
