#include "qkv/core/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/pages.h"

namespace qkv {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// No string: it is asked for before each thing that may fail is known to have failed.
const char* Reason() { return std::strerror(errno); }

int64_t Nanoseconds(const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

FileStamp StampOf(const struct stat& status) {
  return {status.st_dev, status.st_ino, static_cast<uint64_t>(status.st_size), Nanoseconds(status.st_mtim),
          Nanoseconds(status.st_ctim)};
}

// Opens a regular file; a folder or a pipe gets an error of its own instead of a puzzling one later.
int OpenRegular(const std::filesystem::path& path, FileStamp* stamp) {
  // Without O_NONBLOCK a pipe that nobody writes to would keep us waiting here; regular files know no difference.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  Require(fd >= 0, "cannot open {}: {}", path.native(), Reason());
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(fd);
    Fail("cannot read {}: not a regular file", path.string());
  }
  *stamp = StampOf(status);
  return fd;
}

class DescriptorSink : public FileSink {
 public:
  DescriptorSink(int fd, const std::filesystem::path& path) : fd_(fd), path_(path) {}
  using FileSink::Write;
  void Write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      Require(written > 0, "cannot write {}: {}", path_.string(), Reason());
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
  }

 private:
  int fd_;
  const std::filesystem::path& path_;
};

std::string TemporaryName(const std::filesystem::path& path) {
  static std::atomic<int> number{0};
  return fmt::format("{}.{}-{}.tmp", path.string(), ::getpid(), ++number);
}

// Removes the temporary file unless it was renamed away.
struct Temporary {
  std::string path;
  ~Temporary() {
    if (!path.empty()) ::unlink(path.c_str());
  }
};

}  // namespace

FileStamp StampOf(const std::filesystem::path& path) {
  struct stat status {};
  Require(::stat(path.c_str(), &status) == 0, "cannot read {}: {}", path.string(), Reason());
  return StampOf(status);
}

MappedFile::MappedFile(const std::filesystem::path& path) {
  const Descriptor file(OpenRegular(path, &stamp_));
  const size_t size = stamp_.size;
  if (size == 0) return;  // mmap refuses empty files
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  Require(address != MAP_FAILED, "cannot map {}: {}", path.native(), Reason());
  bytes_ = {static_cast<const std::byte*>(address), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})), stamp_(other.stamp_) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(stamp_, other.stamp_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void ReleasePages(std::span<const std::byte> part) {
  internal::AdviseWholePages(part, static_cast<size_t>(::sysconf(_SC_PAGESIZE)), MADV_DONTNEED);
}

std::string ReadFile(const std::filesystem::path& path, size_t max_bytes) {
  FileStamp stamp;
  const Descriptor file(OpenRegular(path, &stamp));
  const size_t size = stamp.size;
  Require(size <= max_bytes, "cannot read {}: {} bytes, at most {} are accepted", path.string(), size, max_bytes);
  std::string text(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(file.get(), text.data() + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    Require(got > 0, "cannot read {}: {}", path.string(), got == 0 ? "it became shorter" : Reason());
    done += static_cast<size_t>(got);
  }
  return text;
}

void WriteFile(const std::filesystem::path& path, const std::function<void(FileSink&)>& fill) {
  // A device or a pipe (/dev/stdout) cannot be replaced by a rename: written in place.
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    Require(!S_ISDIR(status.st_mode), "cannot write {}: it is a folder", path.string());
    const Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    Require(file.get() >= 0, "cannot write {}: {}", path.string(), Reason());
    DescriptorSink sink(file.get(), path);
    fill(sink);
    return;
  }
  Temporary temporary;
  // Not mkstemp, whose files only their owner may read: this one becomes the file, with the usual rights.
  const std::string name = TemporaryName(path);
  const Descriptor file(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  Require(file.get() >= 0, "cannot write {}: {}", path.string(), Reason());
  temporary.path = name;
  DescriptorSink sink(file.get(), path);
  fill(sink);
  Require(::fsync(file.get()) == 0, "cannot write {}: {}", path.string(), Reason());
  Require(::rename(name.c_str(), path.c_str()) == 0, "cannot write {}: {}", path.string(), Reason());
  temporary.path.clear();
}

void WriteFile(const std::filesystem::path& path, std::string_view text) {
  WriteFile(path, [&](FileSink& sink) { sink.Write(text); });
}

void FlushFolder(const std::filesystem::path& folder) {
  const Descriptor file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  Require(file.get() >= 0 && ::fsync(file.get()) == 0, "cannot write {}: {}", folder.string(), Reason());
}

void PointLink(const std::filesystem::path& link, const std::filesystem::path& target) {
  Temporary temporary;
  const std::string name = TemporaryName(link);
  Require(::symlink(target.c_str(), name.c_str()) == 0, "cannot write {}: {}", link.string(), Reason());
  temporary.path = name;
  Require(::rename(name.c_str(), link.c_str()) == 0, "cannot write {}: {}", link.string(), Reason());
  temporary.path.clear();
}

}  // namespace qkv
