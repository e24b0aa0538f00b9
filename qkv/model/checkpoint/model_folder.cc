#include "qkv/model/checkpoint/model_folder.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "qkv/core/file.h"
#include "qkv/model/checkpoint/checkpoint.h"

namespace qkv::model {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWeightsFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";

// A file of a model, which another's may not have: shards are called model-00001-of-00002.safetensors.
bool IsOfModel(std::string_view name) {
  return name == kWeightsFile || name == kIndexFile || name == kPreprocessorFile ||
         (name.starts_with("model-") && name.find("-of-") != name.npos && name.ends_with(".safetensors"));
}

void WriteFiles(const ModelFiles& files, const fs::path& folder) {
  io::WriteSafeTensors(folder / kWeightsFile, files.weights.tensors, files.metadata);
  for (const auto& [name, text] : files.texts) {
    if (name != kConfigFile) WriteFile(folder / name, text);
  }
  WriteFile(folder / kConfigFile, files.texts.at(kConfigFile));
}

// A folder beside the one that is wanted, removed with what is in it unless it was moved there.
class WorkFolder {
 public:
  explicit WorkFolder(const fs::path& target) : target_(target) {
    if (!target.has_filename()) target_ = target.parent_path();  // "out/"
    std::error_code error;
    // What a link leads to is replaced, not the link.
    if (const fs::path real = fs::canonical(target_, error); !error) target_ = real;
    error.clear();
    if (target_.has_parent_path()) fs::create_directories(target_.parent_path(), error);
    // One that is there may be of a process that was killed, or of one of the same number in another container.
    bool created = false;
    for (int i = 0; !error && !created; ++i) {
      path_ = target_;
      path_ += fmt::format(".part-{}{}", ::getpid(), i > 0 ? fmt::format("-{}", i) : "");
      created = fs::create_directory(path_, error);
    }
    Require(created, "cannot create folder {}: {}", path_.string(), error.message());
    // Until it has the permissions of the folder that it replaces.
    if (fs::is_directory(target_, error)) fs::permissions(path_, fs::perms::owner_all);
  }
  ~WorkFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const fs::path& path() const { return path_; }

  /// The folder becomes the target, in one instant: where there is one already, its other files are taken over before,
  /// and it is removed after.
  void Publish() {
    FlushFolder(path_);
    std::error_code error;
    fs::rename(path_, target_, error);  // where it is missing, or empty
    if (error) {
      Require(fs::is_directory(target_), "cannot write {}: {}", target_.string(), error.message());
      KeepPermissions();
      const std::vector<OldFile> old = TakeOver();
      ExchangeFolders(path_, target_);
      const fs::path former = std::exchange(path_, {});
      for (const OldFile& file : old) {
        if (StampAt(former / file.name) == file.stamp) fs::remove(former / file.name, error);
      }
      // What came into it meanwhile, or was replaced, is not ours to remove.
      Require(::rmdir(former.c_str()) == 0, "{} was written, but files that came into it meanwhile are now in {}",
              target_.string(), former.string());
    }
    path_.clear();
    FlushFolder(Parent());
  }

 private:
  fs::path Parent() const { return target_.has_parent_path() ? target_.parent_path() : fs::path("."); }

  // A new file gets those of the file that it replaces, or of the old configuration.
  void KeepPermissions() const {
    for (const fs::directory_entry& entry : fs::directory_iterator(path_)) {
      fs::path like = target_ / entry.path().filename();
      std::error_code ignored;
      if (!fs::exists(like, ignored)) like = target_ / kConfigFile;
      if (fs::exists(like, ignored)) fs::permissions(entry.path(), fs::status(like).permissions());
    }
    fs::permissions(path_, fs::status(target_).permissions());
  }

  struct OldFile {
    fs::path name;
    std::optional<FileStamp> stamp;  // of regular files
  };

  static std::optional<FileStamp> StampAt(const fs::path& path) {
    std::error_code ignored;
    if (!fs::is_regular_file(fs::symlink_status(path, ignored))) return {};
    FileStamp stamp = StampOf(path);
    stamp.changed = 0;  // moves when a file gets a second name
    return stamp;
  }

  // Puts what else the target holds beside the new model: second names of its files. Returns all that it holds, what
  // lies in a folder before the folder.
  std::vector<OldFile> TakeOver() const {
    std::vector<OldFile> old;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(target_)) {
      const fs::path name = entry.path().lexically_relative(target_);
      old.push_back({name, StampAt(entry.path())});
      if (IsOfModel(name.native()) || fs::exists(fs::symlink_status(path_ / name))) continue;
      if (entry.is_symlink()) {
        fs::copy_symlink(entry.path(), path_ / name);
      } else if (entry.is_directory()) {
        fs::create_directory(path_ / name, entry.path());
      } else {
        std::error_code error;
        fs::create_hard_link(entry.path(), path_ / name, error);
        if (error) fs::copy_file(entry.path(), path_ / name);
      }
    }
    std::ranges::reverse(old);
    return old;
  }

  fs::path target_, path_;
};

}  // namespace

void RequireWritable(const fs::path& folder, bool force) {
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) return;
  Require(fs::is_directory(folder, ignored), "{} is there and is no folder", folder.string());
  const bool empty = fs::is_empty(folder, ignored);
  Require(force || empty, "folder {} is not empty; --force replaces the model in it", folder.string());
  // It would stand in a folder that is gone.
  Require(empty || !fs::equivalent(folder, fs::current_path(), ignored),
          "folder {} is the working directory, which --force would replace; start qkv in another one", folder.string());
}

size_t WriteModel(const ModelFiles& files, const fs::path& folder, bool force) {
  RequireWritable(folder, force);
  try {
    WorkFolder work(folder);
    WriteFiles(files, work.path());
    Checkpoint::Open(work.path());  // throws when qkv cannot read what it wrote
    work.Publish();
  } catch (const fs::filesystem_error& error) {
    Fail("cannot write {}: {}", folder.string(), error.code().message());
  }
  size_t bytes = 0;
  for (const io::StoredTensor& tensor : files.weights.tensors) bytes += tensor.bytes.size();
  return bytes;
}

}  // namespace qkv::model
