// The runs of a comparison: planned, trained one after another or by several processes, each resumed where it was
// stopped. Each has a folder as `qkv train` writes it, and in it result.json once it has ended.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "qkv/lab/ablation.h"
#include "qkv/lab/ablation_results.h"

namespace qkv::cli {

struct PlannedRun {
  const lab::AblationData* data = nullptr;
  const lab::Arm* arm = nullptr;
  int64_t seed = 0;
  std::filesystem::path folder;
  train::TrainConfig config;
};

/// `FOLDER/runs/copy,low_rank,rank=8,seed=0`
std::filesystem::path FolderOfRun(const std::filesystem::path& comparison, const lab::AblationData& data,
                                  const lab::Arm& arm, int64_t seed);

bool HasEnded(const PlannedRun& run);
/// Of those that have.
std::vector<lab::RunResult> EndedRuns(const std::vector<PlannedRun>& runs);

struct RunQueue {
  std::vector<PlannedRun> runs;
  bool quiet = false;
  std::function<void()> ended;  // called after each run
  int64_t processes = 1;        // that share the runs
};

/// Trains what has not ended and no other process is at. A run that fails is named and left out. Ends early where a
/// signal asks for it.
void TrainRuns(const RunQueue& queue);

/// The same by `processes`, which share the cores unless the runs say how many threads they have. Must be called before
/// the first parallel loop. A signal to this process goes to all. Throws Error when none can be started.
void TrainInProcesses(const RunQueue& queue);

/// Images or sequences a second of each arm, in training and answering, all in turns on this machine. Of several data
/// sets the first counts.
std::map<std::string, lab::Speed, std::less<>> MeasureSpeeds(const std::vector<PlannedRun>& runs);

}  // namespace qkv::cli
