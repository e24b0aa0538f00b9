// Trains the runs of a comparison, one after another or by several processes. A stopped run is resumed.
#pragma once

#include <functional>
#include <vector>

#include "qkv/lab/ablation_runs.h"

namespace qkv::cli {

struct RunQueue {
  std::vector<lab::PlannedRun> runs;
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

}  // namespace qkv::cli
