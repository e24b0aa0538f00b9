// The folder of a training run, and how one point in time is kept in it whole: model, best model and everything that
// training goes on from change in one instant, whenever the process ends.
//
//   config.yaml, log.jsonl, …       written by others
//   model.safetensors, config.json  the best model so far, for `qkv -m RUN` and timm
//   best/, last/                    the two files of the best model, and of the latest
//   checkpoint -> checkpoint-N      what all of these lead into: the one link that is ever changed
//   checkpoint-N/{best,last}/, checkpoint-N/training.safetensors
//
// checkpoint-N+1 is written and flushed, the link is exchanged by rename(2), checkpoint-N is removed. While it is
// there, a checkpoint that `checkpoint` does not lead to has a link checkpoint.qkv-PID-N.tmp: so the next process knows
// what a killed one left behind. Nothing else is ever removed: a user's own checkpoint-5 or notes.tmp stay.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/io/safetensors.h"

namespace qkv::train {

/// One point in time of a run.
struct Snapshot {
  std::string config;                      // config.json
  std::vector<io::StoredTensor> model;     // the weights that are evaluated
  bool best = true;                        // they are the best so far
  std::vector<io::StoredTensor> training;  // weights, moments, averages: all that the next step begins with
  std::string progress;                    // where the run stands
};

/// What a run goes on from.
struct Saved {
  io::SafeTensors training;
  std::string progress;
};

/// Another process has the folder.
class RunFolderBusy : public Error {
 public:
  using Error::Error;
};

class RunFolder {
 public:
  static constexpr const char* kConfig = "config.yaml";

  /// Makes the folder, takes an empty one, or with `resume` one that holds a run, which its config.yaml tells; no other
  /// process can have it meanwhile. A folder that was made, and that nothing was written to, is removed in the end.
  /// Throws RunFolderBusy when it is another process's, and Error when it holds something else, or a run and `resume`
  /// is false; then nothing in it was changed.
  RunFolder(const std::filesystem::path& path, bool resume);
  /// Of another process, which has it: to Load what is there, nothing else.
  static RunFolder Reader(const std::filesystem::path& path) { return RunFolder(path); }
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Whether there is something to go on from.
  bool HasCheckpoint() const { return number_ > 0; }
  /// The latest model, as Checkpoint::Open takes it.
  std::filesystem::path last() const { return path_ / "last"; }

  /// All or nothing. Throws Error, with the system's reason, when it cannot be written: then the old one is there.
  void Commit(const Snapshot& snapshot);
  /// Throws Error when there is none, or it is damaged.
  Saved Load() const;

 private:
  explicit RunFolder(const std::filesystem::path& path);
  std::filesystem::path FolderOf(int64_t number) const;
  std::filesystem::path MarkOf(int64_t number) const;
  int64_t NextNumber() const;
  void Write(const Snapshot& snapshot, int64_t number) const;
  void PointNames() const;
  void RemoveMarked() const;
  void RemoveLeftovers() const;

  std::filesystem::path path_;
  bool made_ = false;   // the folder, by this
  int lock_ = -1;       // the folder's, where it is this process's
  int64_t number_ = 0;  // of the checkpoint that is there, or 0
};

}  // namespace qkv::train
