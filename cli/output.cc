#include "cli/output.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

namespace qkv::cli {

void PrepareStreams() {
  // The lowest number that is free is given: a closed stream's own. Without the right to write, what is written fails.
  for (int fd = ::open("/dev/null", O_RDONLY); fd >= 0; fd = ::open("/dev/null", O_RDONLY)) {
    if (fd <= STDERR_FILENO) continue;
    ::close(fd);
    break;
  }
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
}

void PrintRaw(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void PrintJsonLine(const io::Json& json) {
  constexpr auto kReplace = io::Json::error_handler_t::replace;
  std::string line = json.dump(-1, ' ', /*ensure_ascii=*/false, kReplace);
  // JSON escapes only some of what a terminal takes for a command.
  if (Printable(line) != line) line = json.dump(-1, ' ', /*ensure_ascii=*/true, kReplace);
  PrintRaw(line + '\n');
}

void FlushOutput() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  if (errno == EPIPE) {
    ::signal(SIGPIPE, SIG_DFL);
    ::raise(SIGPIPE);
  }
  Fail("cannot write to standard output: {}", errno != 0 ? std::strerror(errno) : "an earlier write failed");
}

void PrintMessageRaw(std::string_view text) noexcept {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::clearerr(stderr);
}

}  // namespace qkv::cli
