#include "qkv/train/run/run_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>

#include "qkv/model/layout/tokenizer_files.h"
#include "qkv/train/run/config.h"

namespace qkv::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLink = "checkpoint";
constexpr std::string_view kPrefix = "checkpoint-";
constexpr const char *kBest = "best", *kLast = "last";
constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kModelConfig = "config.json";
constexpr const char* kTrainingFile = "training.safetensors";
constexpr const char* kProgress = "progress";

constexpr const char* kGenerationFile = "generation_config.json";

// Files of a model that a run writes.
bool IsModelFile(std::string_view name) {
  return name == kModelFile || name == kModelConfig || name == kGenerationFile || model::IsTokenizerFile(name);
}
bool IsTrainingFile(std::string_view name) { return name == kTrainingFile; }

// The name of the file that a temporary one was to become; empty if it is not temporary.
template <typename Known>
bool IsKnownOrTemporary(std::string_view entry, Known known) {
  if (known(entry)) return true;
  const size_t mark = entry.rfind(".qkv-");
  if (mark == entry.npos) return false;
  const std::string file(entry.substr(0, mark));
  return known(file) && IsTemporaryNameFor(std::string(entry), file);
}
// Names in a run's folder that are written atomically, so that a temporary file of each may remain.
constexpr std::array<const char*, 6> kWritten = {RunFolder::kConfig, "log.jsonl", "curves.svg",
                                                 "result.json",      kBest,       kLast};

// Links in the folder and their targets.
std::array<std::pair<const char*, fs::path>, 4> Links() {
  return {{{kBest, fs::path(kLink) / kBest},
           {kLast, fs::path(kLink) / kLast},
           {kModelFile, fs::path(kLink) / kBest / kModelFile},
           {kModelConfig, fs::path(kLink) / kBest / kModelConfig}}};
}

// N of "checkpoint-N", or 0.
int64_t NumberIn(const std::string& name) {
  constexpr int64_t kMost = int64_t{1} << 53;
  int64_t number = 0;
  if (!name.starts_with(kPrefix)) return 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, number);
  return error == std::errc() && stop == end && number > 0 && number < kMost ? number : 0;
}

// The number of the checkpoint that a link points to, or 0.
int64_t NumberAt(const fs::path& link) {
  std::error_code error;
  const fs::path target = fs::read_symlink(link, error);
  return error ? 0 : NumberIn(target.string());
}

std::vector<std::string> NamesIn(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  Require(!error, "cannot read folder {}: {}", folder.string(), error.message());
  return names;
}

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() != fs::file_type::not_found;
}

// Says why the folder cannot be used for a new run or, with `resume`, for a resumed one; nothing if it can. Read-only.
std::optional<std::string> Refusal(const fs::path& path, bool resume) {
  const std::string shown = path.string();
  const fs::path config = path / RunFolder::kConfig;
  if (!Exists(config)) {
    for (const std::string& name : NamesIn(path)) {
      std::error_code ignored;
      // Left by a process that was killed while it started.
      const bool left =
          IsTemporaryNameFor(name, RunFolder::kConfig) && fs::is_regular_file(fs::symlink_status(path / name, ignored));
      if (!left) {
        return FormatShown("folder {} is not empty, and holds no training run: there is {}; name a new or empty folder",
                           shown, name);
      }
    }
    return {};
  }
  if (const std::string why = RunSettingsProblem(config); !why.empty()) {
    return Exists(path / kLink)
               ? FormatShown("folder {}: {}; put back the file that the run was begun with", shown, why)
               : FormatShown("folder {} is not empty, and holds no training run: {}; name a new or empty folder", shown,
                             why);
  }
  if (!resume) throw RunFolderTaken(FormatShown("folder {} holds a training run", shown));
  std::error_code error;
  for (const auto& [name, target] : Links()) {
    if (!Exists(path / name) || fs::read_symlink(path / name, error) == target) continue;
    return FormatShown("folder {}: {} is not the link to {} that a run has there; move it away", shown, name,
                       target.string());
  }
  if (Exists(path / kLink) && NumberAt(path / kLink) == 0) {
    return FormatShown("folder {}: {} is no link to a {}N beside it; move it away", shown, kLink, kPrefix);
  }
  return {};
}

// Removes the folder `name` with these files and their temporary files. Other files stay, and then the folder too;
// links are not followed.
void RemoveKnown(int parent, const char* name, bool (*known)(std::string_view)) {
  const int fd = ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  if (DIR* const folder = ::fdopendir(fd)) {
    while (const dirent* entry = ::readdir(folder)) {
      if (IsKnownOrTemporary(entry->d_name, known)) ::unlinkat(fd, entry->d_name, 0);
    }
    ::closedir(folder);
  } else {
    ::close(fd);
  }
  ::unlinkat(parent, name, AT_REMOVEDIR);
}

// The same for checkpoint-N.
void RemoveCheckpoint(int run, const std::string& name) {
  const int fd = ::openat(run, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  for (const char* model : {kBest, kLast}) RemoveKnown(fd, model, IsModelFile);
  ::close(fd);
  RemoveKnown(run, name.c_str(), IsTrainingFile);
}

// Hard-links a file into the second folder, or copies it if the file system has no hard links.
void Share(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_hard_link(from, to, error);
  if (!error) return;
  const MappedFile file(from);
  WriteFile(to, [&](FileSink& sink) {
    sink.Write(file.bytes());
    file.RequireUnchanged(from.native());
  });
}

}  // namespace

RunFolder::RunFolder(const fs::path& path, bool resume) : path_(path) {
  std::error_code error;
  made_ = !fs::exists(path_, error);
  fs::create_directories(path_, error);
  Require(!error, "cannot create folder {}: {}", path_.string(), error.message());
  lock_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  RequireCall(lock_ >= 0, "open", path_);
  try {
    // File systems without locks are accepted.
    if (::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      throw RunFolderBusy(FormatShown("another process is training in {}", path_.string()));
    }
    // Check only under the lock: another process may be writing its first file.
    if (const std::optional<std::string> refusal = Refusal(path_, resume)) throw Error(*refusal);
    number_ = NumberAt(path_ / kLink);
    RemoveLeftovers();
  } catch (...) {
    ::close(lock_);
    throw;
  }
}

RunFolder::RunFolder(const fs::path& path) : path_(path), number_(NumberAt(path / kLink)) {}

RunFolder::~RunFolder() {
  if (made_) ::rmdir(path_.c_str());  // fails if the folder is not empty
  if (lock_ >= 0) ::close(lock_);
}

fs::path RunFolder::CheckpointFolder(int64_t number) const { return path_ / fmt::format("{}{}", kPrefix, number); }

// Named like a temporary file of kLink, see IsTemporaryNameFor.
fs::path RunFolder::CheckpointMark(int64_t number) const {
  return path_ / fmt::format("{}.qkv-{}-{}.tmp", kLink, ::getpid(), number);
}

// An existing checkpoint-N without a mark belongs to the user; its number is skipped.
int64_t RunFolder::NextNumber() const {
  int64_t number = number_ + 1;
  while (Exists(CheckpointFolder(number))) ++number;
  return number;
}

// Removes marked checkpoints except the current one. Ignores failures.
void RunFolder::RemoveMarked() const {
  for (const std::string& name : NamesIn(path_)) {
    std::error_code error;
    if (!IsTemporaryNameFor(name, kLink) || !fs::is_symlink(fs::symlink_status(path_ / name, error))) continue;
    const int64_t number = NumberAt(path_ / name);
    if (number > 0 && number != NumberAt(path_ / kLink))
      RemoveCheckpoint(lock_, CheckpointFolder(number).filename().string());
    ::unlinkat(lock_, name.c_str(), 0);
  }
}

void RunFolder::RemoveLeftovers() const {
  RemoveMarked();
  for (const std::string& name : NamesIn(path_)) {
    const bool left = std::ranges::any_of(kWritten, [&](const char* of) { return IsTemporaryNameFor(name, of); });
    const bool of_model = !IsModelFile(name) && IsKnownOrTemporary(name, IsModelFile);
    if (left || of_model) ::unlinkat(lock_, name.c_str(), 0);  // fails for folders
  }
}

// Creates the missing links that lead through kLink.
void RunFolder::UpdateSymlinks(const Snapshot& snapshot) const {
  for (const auto& [name, target] : Links()) {
    if (!Exists(path_ / name)) PointLink(path_ / name, target);
  }
  for (const auto& [name, content] : snapshot.files) {
    if (!Exists(path_ / name)) PointLink(path_ / name, fs::path(kLink) / kBest / name);
  }
}

// Writes a complete checkpoint, then makes it the current one.
void RunFolder::Write(const Snapshot& snapshot, int64_t number) const {
  const auto mark = [&](int64_t marked) {
    fs::create_symlink(CheckpointFolder(marked).filename(), CheckpointMark(marked));
    return CheckpointMark(marked);
  };
  const fs::path next = CheckpointFolder(number), last = next / kLast, best = next / kBest, link = mark(number);
  Require(fs::create_directory(next), "cannot write {}: it is there already", next.string());
  fs::create_directory(last);
  fs::create_directory(best);
  io::WriteSafeTensors(last / kModelFile, snapshot.model, {{"format", "pt"}});
  WriteFile(last / kModelConfig, snapshot.config);
  for (const auto& [name, content] : snapshot.files) {
    Require(IsModelFile(name), "run folder: no file of a model is called {}", name);
    WriteFile(last / name, content);
  }
  io::WriteSafeTensors(next / kTrainingFile, snapshot.training, {{kProgress, snapshot.progress}});
  const fs::path source = snapshot.best || number_ == 0 ? last : CheckpointFolder(number_) / kBest;
  for (const std::string& name : NamesIn(source)) {
    if (IsModelFile(name)) Share(source / name, best / name);
  }
  for (const fs::path& folder : {last, best, next}) FlushFolder(folder);
  if (number_ == 0) UpdateSymlinks(snapshot);
  FlushFolder(path_);  // persist the folder's name before the link's
  if (number_ > 0) mark(number_);
  fs::rename(link, path_ / kLink);
}

void RunFolder::Commit(const Snapshot& snapshot) {
  Require(lock_ >= 0, "folder {} is another process's", path_.string());
  const int64_t number = NextNumber();
  try {
    Write(snapshot, number);
  } catch (const std::exception& error) {
    RemoveMarked();
    if (const auto* failed = dynamic_cast<const fs::filesystem_error*>(&error)) {
      Fail("cannot write {}: {}", CheckpointFolder(number).string(), failed->code().message());
    }
    throw;
  }
  number_ = number;
  FlushFolder(path_);  // before the old checkpoint is removed
  RemoveMarked();
}

Saved RunFolder::Load() const {
  Require(HasCheckpoint(), "folder {} holds no checkpoint", path_.string());
  const fs::path file = CheckpointFolder(number_) / kTrainingFile;
  Saved saved{io::SafeTensors::Open(file), {}};
  const auto progress = saved.training.metadata().find(kProgress);
  Require(progress != saved.training.metadata().end(), "{} is no file of a training run", file.string());
  saved.progress = progress->second;
  return saved;
}

}  // namespace qkv::train
