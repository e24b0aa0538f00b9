#include "qkv/core/temporary.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/file.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = ".qkv-", kEnding = ".tmp";

// Writers at a time for whose leftovers a later writer looks, and names that it tries.
constexpr int kSearched = 4, kMost = 10'000;

enum class Lock { kTaken, kAnothers, kNone };  // kNone: the file system has no locks

Lock TakeLock(int descriptor) {
#ifdef __EMSCRIPTEN__
  static_cast<void>(descriptor);
  return Lock::kNone;
#else
  int result;
  do {
    result = ::flock(descriptor, LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  return result == 0 ? Lock::kTaken : errno == EWOULDBLOCK ? Lock::kAnothers : Lock::kNone;
#endif
}

// False if the name leads to something else by now, or to nothing.
bool HasName(int descriptor, const fs::path& name) {
  struct stat opened {
  }, named{};
  return ::fstat(descriptor, &opened) == 0 && ::lstat(name.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

int OpenLeft(const fs::path& name, Temporary::Kind kind) {
  constexpr int kFlags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  if (kind == Temporary::Kind::kFolder) return ::open(name.c_str(), O_RDONLY | O_DIRECTORY | kFlags);
  const int descriptor = ::open(name.c_str(), O_RDWR | kFlags);  // NFS locks only what may be written to
  return descriptor >= 0 ? descriptor : ::open(name.c_str(), O_RDONLY | kFlags);
}

// Removes a leftover of this name if it is this user's and no process writes it.
void RemoveLeft(const fs::path& name, Temporary::Kind kind, const Temporary::RemoveFolder& remove) {
  struct stat status {};
  if (::lstat(name.c_str(), &status) != 0 || status.st_uid != ::geteuid()) return;
  if (kind == Temporary::Kind::kFolder ? !S_ISDIR(status.st_mode) : !S_ISREG(status.st_mode)) return;
  const int descriptor = OpenLeft(name, kind);
  if (descriptor < 0) return;
  if (TakeLock(descriptor) == Lock::kTaken && HasName(descriptor, name)) {
    if (kind == Temporary::Kind::kFile) {
      ::unlink(name.c_str());
    } else if (remove) {
      remove(name);
    }
  }
  ::close(descriptor);
}

}  // namespace

fs::path TemporaryName(const fs::path& target, int number) {
  // Releases that wrote the process's id in place of 0 recognise the name by its form.
  return fmt::format("{}{}0-{}{}", target.native(), kMark, number, kEnding);
}

bool IsTemporaryNameFor(std::string_view name, std::string_view of) {
  if (!name.starts_with(of) || !name.ends_with(kEnding)) return false;
  name = name.substr(of.size(), name.size() - of.size() - kEnding.size());
  if (!name.starts_with(kMark)) return false;
  name.remove_prefix(kMark.size());
  const size_t dash = name.find('-');
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
  };
  return dash != name.npos && is_number(name.substr(0, dash)) && is_number(name.substr(dash + 1));
}

Temporary Temporary::File(const fs::path& target) { return Temporary(target, Kind::kFile, {}); }

Temporary Temporary::Folder(const fs::path& target, const RemoveFolder& remove) {
  return Temporary(target, Kind::kFolder, remove);
}

Temporary::Temporary(const fs::path& target, Kind kind, const RemoveFolder& remove) : target_(target), kind_(kind) {
  for (int number = 1; number <= kSearched || path_.empty(); ++number) {
    Require(number <= kMost, "cannot write {}: {} temporary names beside it are taken", target.native(), kMost);
    const fs::path name = TemporaryName(target, number);
    RemoveLeft(name, kind, remove);
    if (path_.empty() && Create(name)) path_ = name;
  }
}

bool Temporary::Create(fs::path name) {
  int descriptor = -1;
  if (kind_ == Kind::kFile) {
    // Not mkstemp, whose files only their owner may read: this one becomes the file, with the usual rights.
    descriptor = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0 && errno == EEXIST) return false;
    RequireCall(descriptor >= 0, "write", target_);
  } else {
    const bool made = ::mkdir(name.c_str(), 0777) == 0;
    if (!made && errno == EEXIST) return false;
    RequireCall(made, "write", target_);
    descriptor = ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  }
  // Before it was locked, another writer may have taken it for left, and removes it.
  const Lock lock = TakeLock(descriptor);
  if (lock == Lock::kAnothers || (lock == Lock::kTaken && !HasName(descriptor, name))) {
    ::close(descriptor);
    return false;
  }
  descriptor_ = descriptor;
  return true;
}

Temporary::Temporary(Temporary&& other) noexcept
    : target_(std::move(other.target_)),
      path_(std::exchange(other.path_, {})),
      kind_(other.kind_),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

Temporary::~Temporary() {
  if (!path_.empty()) kind_ == Kind::kFile ? ::unlink(path_.c_str()) : ::rmdir(path_.c_str());
  if (descriptor_ >= 0) ::close(descriptor_);
}

void Temporary::Rename() {
  RequireCall(::rename(path_.c_str(), target_.c_str()) == 0, "write", target_);
  Release();
}

}  // namespace qkv
