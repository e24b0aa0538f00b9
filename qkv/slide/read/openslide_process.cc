#include "qkv/slide/read/openslide_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <span>

#include "qkv/core/file.h"
#include "qkv/core/work.h"

namespace qkv::slide::openslide {
namespace {

// Waiting looks this often whether the work is cancelled, in milliseconds.
constexpr int kPatience = 20;
// Memory of so many pixels is kept between requests: 16 MB.
constexpr int64_t kKeptPixels = int64_t{2048} * 2048;
// A process that has closed its socket is about to end.
constexpr int kLastMoment = 500;  // ms
// The child ends itself this much later than its parent would end it: then its parent has gone.
constexpr uint32_t kGrace = 10;  // s

// Moves a descriptor beyond the numbers that the child's get, and away from the standard ones, which this process may
// have closed and still print to.
Descriptor Beyond(int descriptor, const std::filesystem::path& program) {
  const Descriptor given(descriptor);
  const int moved = descriptor < 0 ? -1 : ::fcntl(descriptor, F_DUPFD_CLOEXEC, 10);
  RequireCall(moved >= 0, "start", program);
  return Descriptor(moved);
}

// What posix_spawn takes, freed at the end of its scope.
struct SpawnSettings {
  SpawnSettings() {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
  }
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

// Starts the program with the two descriptors and no others, in a process group of its own, with signals as they are
// by default. posix_spawn runs no handlers and copies no memory, so other threads do not matter.
pid_t Spawn(const std::filesystem::path& program, int socket, int memory) {
  SpawnSettings settings;
  auto* const actions = &settings.actions;
  ::posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(actions, 1, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(actions, 2, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(actions, socket, kSocket);
  ::posix_spawn_file_actions_adddup2(actions, memory, kMemory);
  ::posix_spawn_file_actions_addclosefrom_np(actions, kMemory + 1);
  sigset_t none, all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&settings.attributes, &none);
  ::posix_spawnattr_setsigdefault(&settings.attributes, &all);
  ::posix_spawnattr_setpgroup(&settings.attributes, 0);
  ::posix_spawnattr_setflags(&settings.attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::string name = "qkv_openslide", language = "LC_ALL=C.UTF-8", libraries = "LD_LIBRARY_PATH=";
  char* const arguments[] = {name.data(), nullptr};
  // Where a user's libraries are; nothing else of the environment.
  const char* const folders = std::getenv("LD_LIBRARY_PATH");
  libraries += folders == nullptr ? "" : folders;
  char* const environment[] = {language.data(), folders == nullptr ? nullptr : libraries.data(), nullptr};
  pid_t process = -1;
  const int error = ::posix_spawn(&process, program.c_str(), actions, &settings.attributes, arguments, environment);
  errno = error;
  RequireCall(error == 0, "start", program);
  return process;
}

void CopyInto(std::string_view text, std::span<char> to, std::string_view what) {
  Require(text.size() < to.size() && text.find('\0') == text.npos, "slide: {} of {} bytes, expected less than {}", what,
          text.size(), to.size());
  std::copy(text.begin(), text.end(), to.begin());
}

}  // namespace

Process::Process(const ProcessOptions& options) : options_(options) {
  OpenRequest open = {};
  open.request.operation = Operation::kOpen;
  open.request.seconds = options_.seconds + kGrace;
  open.address_space = static_cast<uint64_t>(options_.address_space);
  CopyInto(options_.slide.native(), open.slide, "a path");
  std::span<char> rest = open.libraries;
  for (const std::string& library : options_.libraries) {
    CopyInto(library, rest.first(rest.size() - 1), "a list of OpenSlide's libraries");
    rest = rest.subspan(library.size() + 1);
  }
  try {
    Start();
    Send(&open, sizeof(open));
    opened_ = Receive();
    // A copy, since the process could change them.
    std::memcpy(&facts_, memory_, sizeof(facts_));
  } catch (...) {
    End(true);
    throw;
  }
}

Process::~Process() { End(true); }

void Process::Start() {
  int ends[2] = {-1, -1};
  RequireCall(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "start", options_.program);
  Descriptor ours(ends[0]);
  const Descriptor theirs = Beyond(ends[1], options_.program);
  ours.Release();
  socket_ = Beyond(ends[0], options_.program);
  memory_file_ = Beyond(::memfd_create("qkv_openslide", MFD_CLOEXEC | MFD_ALLOW_SEALING), options_.program);
  // Of this size for ever: a file that shrinks would end its readers by SIGBUS.
  RequireCall(::ftruncate(memory_file_.get(), kMemoryBytes) == 0 &&
                  ::fcntl(memory_file_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0,
              "start", options_.program);
  void* const mapped = ::mmap(nullptr, kMemoryBytes, PROT_READ, MAP_SHARED, memory_file_.get(), 0);
  RequireCall(mapped != MAP_FAILED, "start", options_.program);
  memory_ = mapped;
  const pid_t process = Spawn(options_.program, theirs.get(), memory_file_.get());
  // It waits for the first request, so the number is still its own.
  const auto descriptor = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
  if (descriptor < 0) {
    const int error = errno;
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
    errno = error;
  }
  RequireCall(descriptor >= 0, "start", options_.program);
  process_ = Descriptor(descriptor);
}

Reply Process::Call(Request request) {
  request.seconds = options_.seconds + kGrace;
  Send(&request, sizeof(request));
  const Reply reply = Receive();
  used_ = kMaxPixels;
  if (request.operation == Operation::kRead) used_ = request.width * request.height;
  return reply;
}

void Process::Trim() {
  if (used_ <= kKeptPixels) return;
  ::fallocate(memory_file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kMemoryBytes);
  used_ = 0;
}

void Process::Send(const void* message, size_t bytes) {
  ssize_t sent = 0;
  do {
    sent = ::send(socket_.get(), message, bytes, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent != static_cast<ssize_t>(bytes)) FailEnded("", true);
}

Reply Process::Receive() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(options_.seconds);
  // The process itself too: another process that this one has forked meanwhile may keep the other end open.
  std::array<pollfd, 2> waiting = {pollfd{socket_.get(), POLLIN, 0}, pollfd{process_.get(), POLLIN, 0}};
  while (::poll(waiting.data(), waiting.size(), kPatience) <= 0) {
    CheckCancelled();
    if (std::chrono::steady_clock::now() >= end) {
      End(true);
      throw ProcessEnded(fmt::format("it took longer than {} s", options_.seconds), false, true);
    }
  }
  Reply reply;
  const ssize_t got = ::recv(socket_.get(), &reply, sizeof(reply), MSG_DONTWAIT | MSG_TRUNC);
  if (got <= 0) FailEnded("");
  if (got != static_cast<ssize_t>(sizeof(reply)) || reply.magic != kMagic) FailEnded("its answer is none");
  reply.message[sizeof(reply.message) - 1] = '\0';
  return reply;
}

// Throws ProcessEnded, with how it ended unless there is a reason to end it.
void Process::FailEnded(std::string_view reason, bool before_request) {
  const std::string how = End(!reason.empty());
  throw ProcessEnded(reason.empty() ? how : std::string(reason), before_request);
}

// Waits for its end, by force if that takes too long, and returns how it ended. A process that was forked from the one
// that started it does neither.
std::string Process::End(bool kill) {
  if (memory_ != nullptr) ::munmap(const_cast<void*>(memory_), kMemoryBytes);
  memory_ = nullptr;
  socket_ = Descriptor();
  if (process_.get() < 0 || internal::Forks() != forks_) return "";
  pollfd ended = {process_.get(), POLLIN, 0};
  const bool by_itself = !kill && ::poll(&ended, 1, kLastMoment) == 1;
  if (!by_itself) ::syscall(SYS_pidfd_send_signal, process_.get(), SIGKILL, nullptr, 0);
  siginfo_t status = {};
  int done = 0;
  do {
    done = ::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(process_.get()), &status, WEXITED);
  } while (done < 0 && errno == EINTR);
  process_ = Descriptor();
  if (!by_itself) return "it stopped to answer";
  if (done < 0) return "its status went to another part of this program";  // which ignores SIGCHLD, or waits for all
  if (status.si_code == CLD_EXITED) return fmt::format("exit status {}", status.si_status);
  const char* const name = ::sigabbrev_np(status.si_status);
  return name == nullptr ? fmt::format("signal {}", status.si_status) : fmt::format("SIG{}", name);
}

}  // namespace qkv::slide::openslide
