#include "qkv/core/file_set.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "qkv/core/temporary.h"

namespace qkv {
namespace {

std::filesystem::path FolderOf(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

// The old main file, out of the way. Removed at the end, unless it was put back.
class Aside {
 public:
  explicit Aside(const std::filesystem::path& main) : main_(main), place_(Temporary::File(main)) {
    RequireCall(::rename(main.c_str(), place_.path().c_str()) == 0, "write", main);
  }
  void PutBack() {
    if (::rename(place_.path().c_str(), main_.c_str()) == 0) place_.Release();
  }

 private:
  std::filesystem::path main_;
  Temporary place_;
};

}  // namespace

void FileSet::Add(const std::filesystem::path& path, const std::function<void(FileSink&)>& fill) {
  files_.emplace_back(path, fill);
}

void FileSet::Add(const std::filesystem::path& path, std::string_view text) {
  Add(path, [&](FileSink& sink) { sink.Write(text); });
}

void FileSet::Publish() {
  StagedFile& main = files_.at(0);
  const std::filesystem::path folder = FolderOf(main.path());
  std::optional<Aside> old;
  if (main.replaces() && files_.size() > 1) {
    old.emplace(main.path());
    FlushFolder(folder);  // a power failure must not bring it back beside new files
  }
  for (size_t i = 1; i < files_.size(); ++i) {
    try {
      files_[i].Publish();
    } catch (...) {
      if (old && i == 1) old->PutBack();
      throw;
    }
  }
  if (files_.size() > 1) FlushFolder(folder);
  main.Publish();
  FlushFolder(folder);
}

void WithdrawFile(const std::filesystem::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    RequireCall(errno == ENOENT, "write", path);
    return;
  }
  if (!S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode)) return;
  RequireCall(::unlink(path.c_str()) == 0, "write", path);
  FlushFolder(FolderOf(path));
}

}  // namespace qkv
