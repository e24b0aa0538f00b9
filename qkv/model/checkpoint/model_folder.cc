// Writes a model to a temporary folder, checks that qkv can open it, and exchanges it with the target.
#include "qkv/model/checkpoint/model_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "qkv/core/file.h"
#include "qkv/core/temporary.h"
#include "qkv/io/safetensors.h"
#include "qkv/io/weights.h"
#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/checkpoint/kind.h"
#include "qkv/model/checkpoint/text_checkpoint.h"
#include "qkv/model/layout/tokenizer_files.h"

namespace qkv::model {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWeightsFile = "model.safetensors";

// True for a file that belongs to one model only. Shards are named model-00001-of-00002.safetensors.
bool IsModelFile(std::string_view name) {
  const bool is_shard = (name.starts_with("model-") && name.ends_with(".safetensors")) ||
                        (name.starts_with("pytorch_model-") && name.ends_with(".bin"));
  return std::ranges::find(io::WeightFileNames(), name) != io::WeightFileNames().end() || name == kPreprocessorFile ||
         name == kProcessorFile || name == kConfigFile || name == kOpenClipConfigFile ||
         (is_shard && name.find("-of-") != name.npos);
}

void WriteFiles(const ModelFiles& files, const fs::path& folder) {
  io::WriteSafeTensors(folder / kWeightsFile, files.weights.tensors, files.metadata);
  for (const auto& [name, text] : files.texts) {
    if (name == kConfigFile || name == kOpenClipConfigFile) continue;
    fs::create_directories((folder / name).parent_path());
    WriteFile(folder / name, text);
  }
  for (const fs::path& copy : files.copies) fs::copy_file(copy, folder / copy.filename());
  for (const char* config : {kConfigFile, kOpenClipConfigFile}) {
    if (const auto text = files.texts.find(config); text != files.texts.end()) WriteFile(folder / config, text->second);
  }
}

// A temporary folder beside the target, deleted with its content unless it is published.
class WorkFolder {
 public:
  explicit WorkFolder(const fs::path& target) : target_(target) {
    if (!target.has_filename()) target_ = target.parent_path();  // "out/"
    std::error_code error;
    // If the target is a link, replace the folder behind it, not the link.
    if (const fs::path real = fs::canonical(target_, error); !error) target_ = real;
    error.clear();
    if (target_.has_parent_path()) fs::create_directories(target_.parent_path(), error);
    Require(!error, "cannot create folder {}: {}", target_.parent_path().string(), error.message());
    temporary_.emplace(Temporary::Folder(target_, [this](const fs::path& left) { RemoveLeft(left); }));
    path_ = temporary_->path();
    MarkUnfinished();
    // Private until it gets the permissions of the folder that it replaces.
    if (fs::is_directory(target_, error)) fs::permissions(path_, fs::perms::owner_all);
  }
  ~WorkFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);  // before its lock is given back
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const fs::path& path() const { return path_; }

  /// Renames the folder to the target, atomically. An existing target's other files are taken over first, and it is
  /// deleted afterwards.
  void Publish() {
    std::error_code error;
    const bool replaces = fs::is_directory(target_, error) && !fs::is_empty(target_, error);
    std::vector<OldFile> old;
    if (replaces) {
      KeepPermissions();
      old = TakeOver();
    }
    fs::remove(path_ / kUnfinished);
    FlushFolder(path_);
    if (!replaces) {
      RequireCall(::rename(path_.c_str(), target_.c_str()) == 0, "write", target_);
    } else {
      const LockedFolder locked(target_);  // what becomes of it is removed here, by no other writer
      ExchangeFolders(path_, target_);
      const fs::path former = std::exchange(path_, {});
      for (const OldFile& file : old) {
        if (StampAt(former / file.name) == file.stamp) fs::remove(former / file.name, error);
      }
      if (::rmdir(former.c_str()) != 0) {
        RequireCall(errno == ENOTEMPTY || errno == EEXIST, "remove", former);
        // Never delete files that another process added or replaced meanwhile; nor does the next writer.
        fs::path kept = target_;
        kept += fmt::format(".kept-{}", ::getpid());
        fs::rename(former, kept);
        Fail("{} was written, but files that came into it meanwhile are now in {}", target_.string(), kept.string());
      }
    }
    path_.clear();
    FlushFolder(Parent());
  }

 private:
  static constexpr const char* kUnfinished = ".qkv-unfinished";  // only writers of a new model put it into a folder

  // In one step: WriteFile's temporary file would look like a file of the folder if the process ended here.
  void MarkUnfinished() const {
    const fs::path mark = path_ / kUnfinished;
    const int descriptor = ::open(mark.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    RequireCall(descriptor >= 0, "write", mark);
    ::close(descriptor);
  }

  // Keeps other writers away from the folder that is exchanged.
  class LockedFolder {
   public:
    explicit LockedFolder(const fs::path& path)
        : descriptor_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
      if (descriptor_ >= 0) ::flock(descriptor_, LOCK_EX | LOCK_NB);
    }
    ~LockedFolder() {
      if (descriptor_ >= 0) ::close(descriptor_);
    }
    LockedFolder(const LockedFolder&) = delete;
    LockedFolder& operator=(const LockedFolder&) = delete;

   private:
    int descriptor_;
  };

  // Removes the leftovers of a killed writer: an unfinished model, or a replaced old one except the files that came
  // into it meanwhile.
  void RemoveLeft(const fs::path& left) const {
    std::error_code ignored;
    if (fs::exists(left / kUnfinished, ignored)) {
      // The mark last: this process may be killed, too.
      for (const fs::directory_entry& entry : fs::directory_iterator(left, ignored)) {
        if (entry.path().filename() != kUnfinished) fs::remove_all(entry.path(), ignored);
      }
      fs::remove_all(left, ignored);
      return;
    }
    std::vector<fs::path> folders = {left};
    std::error_code error;
    for (fs::recursive_directory_iterator entry(left, error), end; !error && entry != end; entry.increment(error)) {
      const fs::path& path = entry->path();
      if (entry->is_directory(ignored) && !entry->is_symlink(ignored)) {
        folders.push_back(path);
      } else if (const fs::path name = path.lexically_relative(left); IsModelFile(name.native()) ||
                                                                      IsTokenizerFile(name.native()) ||
                                                                      fs::equivalent(path, target_ / name, ignored)) {
        fs::remove(path, ignored);
      }
    }
    for (; !folders.empty(); folders.pop_back()) ::rmdir(folders.back().c_str());
  }

  fs::path Parent() const { return target_.has_parent_path() ? target_.parent_path() : fs::path("."); }

  // A new file gets the permissions of the file that it replaces, or of the old configuration.
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
    std::optional<FileStamp> stamp;  // regular files only
  };

  static std::optional<FileStamp> StampAt(const fs::path& path) {
    std::error_code ignored;
    if (!fs::is_regular_file(fs::symlink_status(path, ignored))) return {};
    FileStamp stamp = ReadFileStamp(path);
    stamp.changed = 0;  // changes when a file gets another hard link
    return stamp;
  }

  // Links the target's other files into the new folder. Returns all entries of the target, a folder's content before
  // the folder.
  std::vector<OldFile> TakeOver() const {
    std::vector<OldFile> old;
    const auto is_tokenizer = [](const fs::directory_entry& file) {
      return IsTokenizerFile(file.path().filename().native());
    };
    const bool has_tokenizer = std::any_of(fs::directory_iterator(path_), fs::directory_iterator(), is_tokenizer);
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(target_)) {
      const fs::path name = entry.path().lexically_relative(target_);
      old.push_back({name, StampAt(entry.path())});
      if (has_tokenizer && IsTokenizerFile(name.native())) continue;
      if (IsModelFile(name.native()) || fs::exists(fs::symlink_status(path_ / name))) continue;
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
  std::optional<Temporary> temporary_;
};

}  // namespace

bool IsSentenceFile(std::string_view name) {
  return name == kModulesFile || name == kPromptsFile ||
         std::ranges::find(kSentenceFiles, name) != std::end(kSentenceFiles);
}

std::string& ConfigText(ModelFiles& files) {
  return files.texts.at(files.texts.contains(kConfigFile) ? kConfigFile : kOpenClipConfigFile);
}

fs::path ConfigFile(const fs::path& path) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path, ignored);
  const fs::path folder = is_folder ? path : path.parent_path(), other = folder / kOpenClipConfigFile;
  const bool meant = !is_folder && path.filename().string().starts_with("open_clip");
  if (fs::exists(other, ignored) && (meant || !fs::exists(folder / kConfigFile, ignored))) return other;
  return folder / kConfigFile;
}

void RequireWritable(const fs::path& folder, bool force) {
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) return;
  Require(fs::is_directory(folder, ignored), "{} is there and is no folder", folder.string());
  const bool empty = fs::is_empty(folder, ignored);
  Require(force || empty, "folder {} is not empty; --force replaces the model in it", folder.string());
  // The process would be left in a deleted folder.
  Require(empty || !fs::equivalent(folder, fs::current_path(), ignored),
          "folder {} is the working directory, which --force would replace; start qkv in another one", folder.string());
}

size_t WriteModel(const ModelFiles& files, const fs::path& folder, bool force) {
  RequireWritable(folder, force);
  try {
    WorkFolder work(folder);
    WriteFiles(files, work.path());
    // Throws if qkv cannot read what it wrote.
    if (FindKind(work.path()) == ModelKind::kTexts) {
      TextCheckpoint::Open(work.path());
    } else {
      Checkpoint::Open(work.path());
    }
    work.Publish();
  } catch (const fs::filesystem_error& error) {
    Fail("cannot write {}: {}", folder.string(), error.code().message());
  }
  size_t bytes = 0;
  for (const io::StoredTensor& tensor : files.weights.tensors) bytes += tensor.bytes.size();
  return bytes;
}

}  // namespace qkv::model
