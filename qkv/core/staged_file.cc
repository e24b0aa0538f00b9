#include "qkv/core/staged_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <span>
#include <utility>

#include "qkv/core/error.h"

namespace qkv {
namespace {

class DescriptorSink : public FileSink {
 public:
  DescriptorSink(int fd, const std::filesystem::path& path) : fd_(fd), path_(path) {}
  using FileSink::Write;
  void Write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      RequireCall(written > 0, "write", path_);
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
  }

 private:
  int fd_;
  const std::filesystem::path& path_;
};

// Gives the new file the old one's permissions before anything is in it: private content is never open to others. A
// file system without permissions is no error unless access becomes wider than before.
void KeepPermissions(int file, mode_t old, const std::filesystem::path& path) {
  constexpr mode_t kPermissions = 0777;
  struct stat status {};
  if (::fstat(file, &status) == 0 && ((status.st_mode ^ old) & kPermissions) == 0) return;
  RequireCall(::fchmod(file, old & kPermissions) == 0 || (status.st_mode & ~old & kPermissions) == 0,
              "keep the permissions of", path);
}

}  // namespace

StagedFile::StagedFile(const std::filesystem::path& path, const std::function<void(FileSink&)>& fill) : path_(path) {
  struct stat status {};
  replaces_ = ::stat(path.c_str(), &status) == 0;
  if (replaces_ && !S_ISREG(status.st_mode)) {
    Require(!S_ISDIR(status.st_mode), "cannot write {}: it is a folder", path.string());
    const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    RequireCall(file >= 0, "write", path);
    const std::unique_ptr<const int, void (*)(const int*)> closed(&file, [](const int* fd) { ::close(*fd); });
    DescriptorSink sink(file, path);
    fill(sink);
    return;
  }
  Temporary temporary = Temporary::File(path);
  if (replaces_) KeepPermissions(temporary.descriptor(), status.st_mode, path);
  DescriptorSink sink(temporary.descriptor(), path);
  fill(sink);
  RequireCall(::fsync(temporary.descriptor()) == 0, "write", path);
  temporary_.emplace(std::move(temporary));
}

}  // namespace qkv
