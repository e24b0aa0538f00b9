#include "cli/output.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cli/progress.h"
#include "qkv/app/open/json_line.h"
#include "qkv/app/open/note.h"

namespace qkv::cli {

namespace {

bool notes_silenced = false;  // by the one thread that parses options, before any work
int write_error = 0;          // of a write before the stream is flushed, which a full or missing buffer makes

}  // namespace

void PrepareStreams() {
  // open() gives the lowest free number, which is that of a closed stream. Writing to a read-only file fails.
  for (int fd = ::open("/dev/null", O_RDONLY); fd >= 0; fd = ::open("/dev/null", O_RDONLY)) {
    if (fd <= STDERR_FILENO) continue;
    ::close(fd);
    break;
  }
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
}

void PrintRaw(std::string_view text) {
  Progress::ClearShown();
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) < text.size()) write_error = errno;
}

void PrintJsonLine(const io::Json& json) { PrintRaw(app::JsonLine(json) + '\n'); }

void FlushOutput() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  if (errno == 0) errno = write_error;
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

void PrintNote(const std::string& text) {
  if (!notes_silenced || app::IsWarning(text)) PrintMessage("qkv: {}\n", EscapedText{text});
}

void SilenceNotes() { notes_silenced = true; }

bool CanOverwriteLines() {
  const char* const terminal = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && (terminal == nullptr || std::string_view(terminal) != "dumb");
}

}  // namespace qkv::cli
