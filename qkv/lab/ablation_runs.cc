#include "qkv/lab/ablation_runs.h"

#include <fmt/format.h>

#include <algorithm>

#include "qkv/core/file.h"

namespace qkv::lab {

namespace fs = std::filesystem;

std::string RunName(const PlannedRun& run) {
  return fmt::format("{}, {}, seed {}", run.data->name, run.arm->name, run.seed);
}

fs::path RunFolderPath(const fs::path& comparison, const AblationData& data, const Arm& arm, int64_t seed) {
  std::string name = fmt::format("{},{},seed={}", data.name, arm.name, seed);
  std::ranges::replace(name, ':', ',');
  return comparison / "runs" / name;
}

bool HasEnded(const PlannedRun& run) { return fs::exists(run.folder / kResult); }

std::vector<RunResult> EndedRuns(const std::vector<PlannedRun>& runs) {
  std::vector<RunResult> results;
  for (const PlannedRun& run : runs) {
    const fs::path file = run.folder / kResult;
    if (!HasEnded(run)) continue;
    const RunResult& result = results.emplace_back(RunResult::FromJson(ReadFile(file), file.string()));
    Require(result.data == run.data->name && result.arm == run.arm->name && result.seed == run.seed,
            "{}: the result of {}, {}, seed {}, expected {}; remove the folder to train the run again", file.string(),
            result.data, result.arm, result.seed, RunName(run));
  }
  return results;
}

}  // namespace qkv::lab
