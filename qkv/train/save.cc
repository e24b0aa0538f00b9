#include "qkv/train/save.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

namespace qkv::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLink = "checkpoint";
constexpr std::string_view kPrefix = "checkpoint-";
constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kModelConfig = "config.json";
constexpr const char* kTrainingFile = "training.safetensors";
constexpr const char* kProgress = "progress";

// The number in "checkpoint-N", or 0.
int64_t NumberIn(const std::string& name) {
  int64_t number = 0;
  if (!name.starts_with(kPrefix)) return 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, number);
  return error == std::errc() && stop == end && number > 0 ? number : 0;
}

// The number of the checkpoint that the link leads to, or 0.
int64_t LatestIn(const fs::path& path) {
  std::error_code error;
  const fs::path target = fs::read_symlink(path / kLink, error);
  return error ? 0 : NumberIn(target.string());
}

// Whether nothing is there but what a process that was killed left of a file.
bool IsFresh(const fs::path& folder) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (!entry.path().filename().string().ends_with(".tmp")) return false;
  }
  return true;
}

// Removes a folder that did not become a checkpoint.
struct Unfinished {
  fs::path path;
  ~Unfinished() {
    std::error_code ignored;
    if (!path.empty()) fs::remove_all(path, ignored);
  }
};

// A file in both folders; where the file system has no second names, a copy.
void Share(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_hard_link(from, to, error);
  if (!error) return;
  const MappedFile file(from);
  WriteFile(to, [&](FileSink& sink) { sink.Write(file.bytes()); });
}

}  // namespace

RunFolder::RunFolder(const fs::path& path, bool resume) : path_(path) {
  std::error_code error;
  made_ = !fs::exists(path_, error);
  fs::create_directories(path_, error);
  Require(!error, "cannot create folder {}: {}", path_.string(), error.message());
  lock_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  Require(lock_ >= 0, "cannot open {}: {}", path_.string(), std::strerror(errno));
  // Where the file system has no locks there is none to be had.
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(lock_);
    throw RunFolderBusy(fmt::format("another process is training in {}", path_.string()));
  }
  // Only who has the lock may look: another process may just be writing the first file.
  const bool is_run = fs::exists(path_ / kConfig, error);
  const bool fresh = !is_run && IsFresh(path_);
  if (!(fresh || is_run) || !(fresh || resume)) {
    ::close(lock_);
    Require(fresh || is_run, "folder {} is not empty, and holds no training run", path_.string());
    Fail("folder {} holds a training run: --resume continues it", path_.string());
  }
  number_ = LatestIn(path_);
  RemoveLeftovers();
}

RunFolder::RunFolder(const fs::path& path) : path_(path), number_(LatestIn(path)) {}

RunFolder::~RunFolder() {
  if (made_) ::rmdir(path_.c_str());  // which refuses where it holds anything
  if (lock_ >= 0) ::close(lock_);
}

fs::path RunFolder::FolderOf(int64_t number) const { return path_ / fmt::format("{}{}", kPrefix, number); }

void RunFolder::RemoveLeftovers() const {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_, ignored)) {
    const std::string name = entry.path().filename().string();
    const bool unfinished = NumberIn(name) > 0 && NumberIn(name) != number_;
    if (unfinished || name.ends_with(".tmp")) fs::remove_all(entry.path(), ignored);
  }
}

void RunFolder::Commit(const Snapshot& snapshot) {
  Require(lock_ >= 0, "folder {} is another process's", path_.string());
  Unfinished next{FolderOf(number_ + 1)};
  const fs::path last = next.path / "last", best = next.path / "best";
  try {
    fs::create_directories(last);
    fs::create_directory(best);
    io::WriteSafeTensors(last / kModelFile, snapshot.model, {{"format", "pt"}});
    WriteFile(last / kModelConfig, snapshot.config);
    io::WriteSafeTensors(next.path / kTrainingFile, snapshot.training, {{kProgress, snapshot.progress}});
    const fs::path source = snapshot.best || number_ == 0 ? last : FolderOf(number_) / "best";
    for (const char* name : {kModelFile, kModelConfig}) Share(source / name, best / name);
    for (const fs::path& folder : {last, best, next.path}) FlushFolder(folder);
    if (number_ == 0) {
      for (const char* name : {"best", "last"}) PointLink(path_ / name, fs::path(kLink) / name);
      for (const char* name : {kModelFile, kModelConfig}) PointLink(path_ / name, fs::path(kLink) / "best" / name);
    }
    FlushFolder(path_);  // the folder's name, before the link's
    PointLink(path_ / kLink, next.path.filename());
  } catch (const fs::filesystem_error& error) {
    Fail("cannot write {}: {}", next.path.string(), error.code().message());
  }
  next.path.clear();
  ++number_;
  FlushFolder(path_);
  std::error_code ignored;
  fs::remove_all(FolderOf(number_ - 1), ignored);
}

Saved RunFolder::Load() const {
  Require(HasCheckpoint(), "folder {} holds no checkpoint", path_.string());
  const fs::path file = FolderOf(number_) / kTrainingFile;
  Saved saved{io::SafeTensors::Open(file), {}};
  const auto progress = saved.training.metadata().find(kProgress);
  Require(progress != saved.training.metadata().end(), "{} is no file of a training run", file.string());
  saved.progress = progress->second;
  return saved;
}

}  // namespace qkv::train
