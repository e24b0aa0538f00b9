// The runs of a comparison. Each has a folder as `qkv train` writes it, with result.json once it is finished. Not here:
// training them (comparison.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "qkv/lab/ablation.h"
#include "qkv/lab/ablation_results.h"

namespace qkv::lab {

inline constexpr const char* kResult = "result.json";

struct PlannedRun {
  const AblationData* data = nullptr;
  const Arm* arm = nullptr;
  int64_t seed = 0;
  std::filesystem::path folder;
  train::TrainConfig config;
};

/// `FOLDER/runs/copy,low_rank,rank=8,seed=0`
std::filesystem::path RunFolderPath(const std::filesystem::path& comparison, const AblationData& data, const Arm& arm,
                                    int64_t seed);

bool HasEnded(const PlannedRun& run);
/// The results of the finished runs.
std::vector<RunResult> EndedRuns(const std::vector<PlannedRun>& runs);

/// "copy, low_rank:rank=8, seed 0"
std::string RunName(const PlannedRun& run);

}  // namespace qkv::lab
