#include "qkv/core/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "qkv/core/descriptor.h"
#include "qkv/core/error.h"
#include "qkv/core/file_error.h"
#include "qkv/core/mapping_guard.h"
#include "qkv/core/pages.h"
#include "qkv/core/staged_file.h"
#include "qkv/core/temporary.h"
#include "qkv/core/work.h"

namespace qkv {
namespace {

using internal::Descriptor;

int64_t Nanoseconds(const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

FileStamp ReadFileStamp(const struct stat& status) {
  return {status.st_dev, status.st_ino, static_cast<uint64_t>(status.st_size), Nanoseconds(status.st_mtim),
          Nanoseconds(status.st_ctim)};
}

}  // namespace

void RequireCall(bool done, std::string_view action, const std::filesystem::path& path) {
  if (done) [[likely]]
    return;
  const int reason = errno;  // before anything else may set it
  Fail("cannot {} {}: {}", action, path.native(), std::generic_category().message(reason));
}

FileStamp ReadFileStamp(const std::filesystem::path& path) {
  struct stat status {};
  RequireCall(::stat(path.c_str(), &status) == 0, "read", path);
  return ReadFileStamp(status);
}

bool FileExists(const std::filesystem::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) return true;
  RequireCall(errno == ENOENT || errno == ENOTDIR, "read", path);
  return false;
}

InputFile::InputFile(const std::filesystem::path& path) : path_(&path) {
  // Without O_NONBLOCK, opening a pipe without a writer would block; for regular files it changes nothing.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  RequireCall(descriptor_ >= 0, "open", path);
  Descriptor file(descriptor_);
  struct stat status {};
  RequireCall(::fstat(file.get(), &status) == 0, "read", path);
  Require(S_ISREG(status.st_mode), "cannot read {}: not a regular file", path.native());
  stamp_ = ReadFileStamp(status);
  file.Release();
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void InputFile::Read(std::span<std::byte> to) {
  constexpr size_t kPiece = size_t{8} << 20;  // some milliseconds, between which it can be cancelled
  while (!to.empty()) {
    CheckTask();
    const ssize_t got = ::read(descriptor_, to.data(), std::min(to.size(), kPiece));
    if (got < 0 && errno == EINTR) continue;
    RequireCall(got >= 0, "read", *path_);
    Require(got > 0, "cannot read {}: it became shorter", path_->native());
    to = to.subspan(static_cast<size_t>(got));
  }
}

MappedFile::MappedFile(const std::filesystem::path& path) {
  InputFile file(path);
  stamp_ = file.stamp();
  if (stamp_.size == 0) return;  // mmap refuses empty files
  void* address = ::mmap(nullptr, stamp_.size, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  RequireCall(address != MAP_FAILED, "map", path);
  bytes_ = {static_cast<const std::byte*>(address), static_cast<size_t>(stamp_.size)};
  guard_ = internal::GuardMapping(bytes_);
  if (guard_ < 0) {
    ::munmap(address, bytes_.size());
    Fail("cannot map {}: too many files at once", path.native());
  }
  descriptor_ = ::fcntl(file.descriptor(), F_DUPFD_CLOEXEC, 0);  // without one, only the bytes that were read are known
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})),
      stamp_(other.stamp_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      guard_(std::exchange(other.guard_, -1)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(stamp_, other.stamp_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(guard_, other.guard_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) {
    internal::ForgetMapping(guard_);
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
  if (descriptor_ >= 0) ::close(descriptor_);
}

void MappedFile::RequireUnchanged(std::string_view name) const {
  bool same = guard_ < 0 || !internal::HasFaulted(guard_);
  struct stat status {};
  if (same && descriptor_ >= 0 && ::fstat(descriptor_, &status) == 0) {
    // Not the time of the last change, which moves with permissions and names too.
    const FileStamp now = ReadFileStamp(status);
    same = now.size == stamp_.size && now.modified == stamp_.modified;
  }
  if (!same) throw FileError(FormatShown("{}: the file was changed while it was read", name));
}

void ReleasePages(std::span<const std::byte> part) {
  internal::AdviseWholePages(part, static_cast<size_t>(::sysconf(_SC_PAGESIZE)), MADV_DONTNEED);
}

std::string ReadFile(const std::filesystem::path& path, size_t max_bytes) {
  InputFile file(path);
  const size_t size = file.stamp().size;
  Require(size <= max_bytes, "cannot read {}: {} bytes, at most {} are accepted", path.native(), size, max_bytes);
  std::string text(size, '\0');
  file.Read(std::as_writable_bytes(std::span(text)));
  return text;
}

void WriteFile(const std::filesystem::path& path, const std::function<void(FileSink&)>& fill) {
  StagedFile(path, fill).Publish();
}

void WriteFile(const std::filesystem::path& path, std::string_view text) {
  WriteFile(path, [&](FileSink& sink) { sink.Write(text); });
}

void FlushFolder(const std::filesystem::path& folder) {
  const Descriptor file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  RequireCall(file.get() >= 0 && ::fsync(file.get()) == 0, "write", folder);
}

void PointLink(const std::filesystem::path& link, const std::filesystem::path& target) {
  // A link cannot be locked: only its folder's owner knows whether one is left over.
  std::filesystem::path name;
  bool made = false;
  for (int number = 1; !made; ++number) {
    name = TemporaryName(link, number);
    made = ::symlink(target.c_str(), name.c_str()) == 0;
    RequireCall(made || errno == EEXIST, "write", link);
  }
  if (::rename(name.c_str(), link.c_str()) == 0) return;
  const int reason = errno;
  ::unlink(name.c_str());
  errno = reason;
  RequireCall(false, "write", link);
}

void ExchangeFolders(const std::filesystem::path& from, const std::filesystem::path& to) {
#ifdef __linux__
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return;
  RequireCall(errno == EINVAL || errno == ENOSYS, "write", to);
#endif
  const Temporary aside = Temporary::Folder(to, {});
  RequireCall(::rename(to.c_str(), aside.path().c_str()) == 0, "write", to);
  if (::rename(from.c_str(), to.c_str()) != 0) {
    const int reason = errno;
    ::rename(aside.path().c_str(), to.c_str());
    errno = reason;
    RequireCall(false, "write", to);
  }
  RequireCall(::rename(aside.path().c_str(), from.c_str()) == 0, "write", from);
}

}  // namespace qkv
