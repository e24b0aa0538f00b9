#include "qkv/core/mapping_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>

namespace qkv::internal {
namespace {

// A table that the handler can read at any instant: no lock, no allocation. `version` is odd while a place changes, so
// that the beginning of one mapping never meets the end of another.
struct Mapping {
  std::atomic<uint64_t> version{0};
  std::atomic<uintptr_t> begin{0}, end{0};  // 0: none
  std::atomic<bool> taken{false}, faulted{false};
};

constexpr int kPlaces = 4096;
std::array<Mapping, kPlaces> mappings;  // NOLINT: a handler has no other way to its data
std::atomic<int> used{0};               // places that were ever taken
struct sigaction former;                // NOLINT

static_assert(std::atomic<uintptr_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

void ForwardSignal(int number, siginfo_t* info, void* context) {
  if ((former.sa_flags & SA_SIGINFO) != 0) return former.sa_sigaction(number, info, context);
  if (former.sa_handler != SIG_DFL && former.sa_handler != SIG_IGN) return former.sa_handler(number);
  // The instruction is tried again, and ends the process as it would have; a signal that was sent is sent again.
  ::signal(number, SIG_DFL);
  if (info->si_code <= 0) ::raise(number);
}

void OnFault(int number, siginfo_t* info, void* context) {
  const int error = errno;
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  for (int i = 0, count = used.load(); i < count; ++i) {
    Mapping& mapping = mappings[static_cast<size_t>(i)];
    // The mapping that is being read is there as long as it is read: whatever changes is another.
    const uint64_t version = mapping.version.load();
    const uintptr_t begin = mapping.begin.load(), end = mapping.end.load();
    if (version % 2 != 0 || mapping.version.load() != version || at < begin || at >= end) continue;
    // From here to the end: the rest is missing too, and what was read is refused in any case.
    const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    void* const first = reinterpret_cast<void*>(at / page * page);
    mapping.faulted.store(true);
    if (::mmap(first, end - at / page * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != first)
      break;
    errno = error;
    return;
  }
  ForwardSignal(number, info, context);
  errno = error;
}

void Change(Mapping& place, uintptr_t begin, uintptr_t end) {
  ++place.version;
  place.begin.store(begin);
  place.end.store(end);
  ++place.version;
}

void InstallHandler() {
  struct sigaction action {};
  action.sa_sigaction = OnFault;
  action.sa_flags = static_cast<int>(SA_SIGINFO | SA_ONSTACK | SA_RESTART);
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, &former);
}

}  // namespace

int GuardMapping(std::span<const std::byte> mapping) {
  static std::once_flag installed;
  std::call_once(installed, InstallHandler);
  for (int i = 0; i < kPlaces; ++i) {
    Mapping& place = mappings[static_cast<size_t>(i)];
    if (place.taken.exchange(true)) continue;
    for (int count = used.load(); count <= i && !used.compare_exchange_weak(count, i + 1);) {
    }
    const auto begin = reinterpret_cast<uintptr_t>(mapping.data());
    place.faulted.store(false);
    Change(place, begin, begin + mapping.size());
    return i;
  }
  return -1;
}

void ForgetMapping(int guard) {
  Mapping& place = mappings[static_cast<size_t>(guard)];
  Change(place, 0, 0);
  place.taken.store(false);
}

bool HasFaulted(int guard) { return mappings[static_cast<size_t>(guard)].faulted.load(); }

}  // namespace qkv::internal
