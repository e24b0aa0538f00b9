#include "qkv/model/folder.h"

#include <unistd.h>

#include "qkv/core/file.h"
#include "qkv/model/checkpoint.h"

namespace qkv::model {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWeightsFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

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
    if (target_.has_parent_path()) fs::create_directories(target_.parent_path(), error);
    // One that is there may be of a process that was killed, or of one of the same number in another container.
    bool created = false;
    for (int i = 0; !error && !created; ++i) {
      path_ = target_;
      path_ += fmt::format(".part-{}{}", ::getpid(), i > 0 ? fmt::format("-{}", i) : "");
      created = fs::create_directory(path_, error);
    }
    Require(created, "cannot create folder {}: {}", path_.string(), error.message());
  }
  ~WorkFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const fs::path& path() const { return path_; }

  /// The folder becomes the target, which is missing or empty; or else its files replace the target's.
  void Publish() {
    std::error_code error;
    fs::rename(path_, target_, error);
    if (!error) return;
    Require(fs::is_directory(target_), "cannot write {}: {}", target_.string(), error.message());
    fs::remove(target_ / kConfigFile);  // while files are exchanged, this is no model
    for (const char* name : {kWeightsFile, kPreprocessorFile, kConfigFile}) {
      fs::remove(target_ / name);
      if (fs::exists(path_ / name)) fs::rename(path_ / name, target_ / name);
    }
    fs::remove(target_ / kIndexFile);
  }

 private:
  fs::path target_, path_;
};

}  // namespace

void RequireWritable(const fs::path& folder, bool force) {
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) return;
  Require(fs::is_directory(folder, ignored), "{} is there and is no folder", folder.string());
  Require(force || fs::is_empty(folder, ignored), "folder {} is not empty; --force replaces the model in it",
          folder.string());
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
