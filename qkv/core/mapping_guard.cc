#include "qkv/core/mapping_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <utility>

#include "qkv/core/fork.h"

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

// One of this file's handlers. A handler of others that was installed over the last of them is replaced by one more
// when the next mapping comes. As each passes signals on to the handler that it replaced, and others to the one that
// they replaced, a signal goes down a chain in which nothing is twice.
struct Handler {
  void (*function)(int, siginfo_t*, void*) = nullptr;
  struct sigaction former {};
  // The signal that it passes on, and where on the stack.
  std::atomic<const siginfo_t*> passed{nullptr};
  std::atomic<uintptr_t> frame{0};
};

constexpr int kHandlers = 8;              // those of others are left where they are after so many
std::array<Handler, kHandlers> handlers;  // NOLINT
PerProcess<std::mutex> installing;        // NOLINT
int installed = 0;                        // of `handlers`; under the lock

static_assert(std::atomic<uintptr_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

void ForwardSignal(Handler& handler, int number, siginfo_t* info, void* context) {
  const struct sigaction& former = handler.former;
  const auto frame = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  // A handler that was installed twice has forgotten what it replaced first, and gives the signal back deeper in the
  // stack. One that left by a jump has not.
  const bool came_back = handler.passed.load() == info && frame < handler.frame.load();
  if (!came_back && former.sa_handler != SIG_DFL && former.sa_handler != SIG_IGN) {
    handler.frame.store(frame);
    handler.passed.store(info);
    (former.sa_flags & SA_SIGINFO) != 0 ? former.sa_sigaction(number, info, context) : former.sa_handler(number);
    handler.passed.store(nullptr);
    return;
  }
  // The instruction is tried again, and ends the process as it would have; a signal that was sent is sent again.
  ::signal(number, SIG_DFL);
  if (info->si_code <= 0) ::raise(number);
}

void HandleFault(Handler& handler, int number, siginfo_t* info, void* context) {
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
  ForwardSignal(handler, number, info, context);
  errno = error;
}

void Change(Mapping& place, uintptr_t begin, uintptr_t end) {
  ++place.version;
  place.begin.store(begin);
  place.end.store(end);
  ++place.version;
}

template <size_t level>
void OnFault(int number, siginfo_t* info, void* context) {
  HandleFault(handlers[level], number, info, context);
}

template <size_t... level>
constexpr auto OnFaultOfEach(std::index_sequence<level...>) {
  return std::array<void (*)(int, siginfo_t*, void*), sizeof...(level)>{OnFault<level>...};
}

bool IsSame(const struct sigaction& a, const struct sigaction& b) {
  return (a.sa_flags & SA_SIGINFO) == (b.sa_flags & SA_SIGINFO) && a.sa_handler == b.sa_handler;
}

// The one that replaces `former`: the same as before if it was that one's turn before, or the next. Null if none is
// left.
Handler* HandlerOver(const struct sigaction& former) {
  for (int i = 0; i < installed; ++i) {
    if (IsSame(handlers[static_cast<size_t>(i)].former, former)) return &handlers[static_cast<size_t>(i)];
  }
  if (installed == kHandlers) return nullptr;
  Handler& next = handlers[static_cast<size_t>(installed)];
  next.former = former;
  next.function = OnFaultOfEach(std::make_index_sequence<kHandlers>())[static_cast<size_t>(installed)];
  ++installed;
  return &next;
}

// Puts a handler of this file in front, unless one is.
void InstallHandler() {
  const std::lock_guard lock(installing.Get());
  struct sigaction now {};
  ::sigaction(SIGBUS, nullptr, &now);
  const bool siginfo = (now.sa_flags & SA_SIGINFO) != 0;
  for (int i = 0; i < installed; ++i) {
    if (siginfo && now.sa_sigaction == handlers[static_cast<size_t>(i)].function) return;
  }
  const Handler* const handler = HandlerOver(now);
  if (handler == nullptr) return;
  struct sigaction action {};
  action.sa_sigaction = handler->function;
  action.sa_flags = static_cast<int>(SA_SIGINFO | SA_ONSTACK | SA_RESTART);
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace

int GuardMapping(std::span<const std::byte> mapping) {
  InstallHandler();
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
