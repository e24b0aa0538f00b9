// The runs of a comparison: planned, then trained one after another or by several processes. A stopped run is resumed.
// Each run has a folder as `qkv train` writes it, with result.json once it is finished.
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
std::filesystem::path RunFolderPath(const std::filesystem::path& comparison, const lab::AblationData& data,
                                    const lab::Arm& arm, int64_t seed);

bool HasEnded(const PlannedRun& run);
/// The results of the finished runs.
std::vector<lab::RunResult> EndedRuns(const std::vector<PlannedRun>& runs);

struct RunQueue {
  std::vector<PlannedRun> runs;
  bool quiet = false;
  std::function<void()> ended;  // called after each run
  int64_t processes = 1;        // number of processes that share the runs
};

/// Trains the runs that are not finished and that no other process trains. A run that fails is named and left out. Ends
/// early after a signal.
void TrainRuns(const RunQueue& queue);

/// The same by `processes`, which share the cores unless the runs set their number of threads. Must be called before
/// the first parallel loop. A signal to this process is sent to all. Throws Error if none can be started.
void TrainInProcesses(const RunQueue& queue);

/// Images, sequences or pairs per second of each arm, in training and inference, measured in turns on this machine with
/// the first data set.
std::map<std::string, lab::Speed, std::less<>> MeasureSpeeds(const std::vector<PlannedRun>& runs);

}  // namespace qkv::cli
