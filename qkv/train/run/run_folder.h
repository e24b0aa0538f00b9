// The folder of a training run. Model, best model and training state change together in one atomic step, so a process
// may be killed at any time.
//
//   config.yaml, log.jsonl, …       written by other files
//   model.safetensors, config.json  the best model so far, for `qkv -m RUN` and timm
//   tokenizer.json, …               its tokenizer and generation_config.json, if it is of pairs of texts
//   best/, last/                    these files of the best model, and of the latest
//   checkpoint -> checkpoint-N      the names above link through this one, the only link that ever changes
//   checkpoint-N/{best,last}/, checkpoint-N/training.safetensors
//
// checkpoint-N+1 is written and flushed, rename(2) replaces the link, and checkpoint-N is removed. Meanwhile a link
// checkpoint.qkv-PID-N.tmp marks the checkpoint that `checkpoint` does not point to, so that the next process can
// remove what a killed one left behind. Nothing else is ever removed: a user's own checkpoint-5 or notes.tmp stay.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/io/safetensors.h"

namespace qkv::train {

/// The state of a run at one step.
struct Snapshot {
  std::string config;                      // config.json
  std::vector<io::StoredTensor> model;     // the weights that are evaluated
  bool best = true;                        // they are the best so far
  std::vector<io::StoredTensor> training;  // weights, moments, averages: the tensors that the next step needs
  std::string progress;                    // RunState::ToJson
  std::vector<std::pair<std::string, std::string>> files = {};  // further ones of the model: names and contents
};

/// State loaded on resume.
struct Saved {
  io::SafeTensors training;
  std::string progress;
};

/// Another process holds the folder's lock.
class RunFolderBusy : public Error {
 public:
  using Error::Error;
};

/// The folder holds a run, and it was not to be resumed; a front end adds how to.
class RunFolderTaken : public Error {
 public:
  using Error::Error;
};

class RunFolder {
 public:
  static constexpr const char* kConfig = "config.yaml";

  /// Creates the folder, takes an empty one, or with `resume` one that holds a run, recognised by its config.yaml.
  /// Locks it against other processes. The destructor removes a folder that was created here and stayed empty. Throws
  /// RunFolderBusy if another process holds the lock, RunFolderTaken if it holds a run and `resume` is false, and Error
  /// if it holds something else; nothing in it has changed then.
  RunFolder(const std::filesystem::path& path, bool resume);
  /// Opens the folder without the lock, which another process holds; only Load may be called.
  static RunFolder Reader(const std::filesystem::path& path) { return RunFolder(path); }
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// True if there is a checkpoint to resume from.
  bool HasCheckpoint() const { return number_ > 0; }
  /// The latest model, in a form that Checkpoint::Open accepts.
  std::filesystem::path last() const { return path_ / "last"; }

  /// Writes a checkpoint atomically. Throws Error, with the system's reason, if that fails; the old checkpoint remains.
  void Commit(const Snapshot& snapshot);
  /// Throws Error if there is no checkpoint, or it is damaged.
  Saved Load() const;

 private:
  explicit RunFolder(const std::filesystem::path& path);
  std::filesystem::path CheckpointFolder(int64_t number) const;
  std::filesystem::path CheckpointMark(int64_t number) const;
  int64_t NextNumber() const;
  void Write(const Snapshot& snapshot, int64_t number) const;
  void UpdateSymlinks(const Snapshot& snapshot) const;
  void RemoveMarked() const;
  void RemoveLeftovers() const;

  std::filesystem::path path_;
  bool made_ = false;   // this object created the folder
  int lock_ = -1;       // descriptor of the locked folder, or −1
  int64_t number_ = 0;  // number of the current checkpoint, or 0
};

}  // namespace qkv::train
