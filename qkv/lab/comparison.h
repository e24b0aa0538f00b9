// A comparison of kinds of attention as a user asks for it: planned, trained run by run, reported. A library of its
// own, qkv_comparison: its runs have the pictures of app/training.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/app/open/note.h"
#include "qkv/lab/ablation.h"
#include "qkv/lab/ablation_results.h"
#include "qkv/lab/ablation_runs.h"
#include "qkv/train/run/loop.h"

namespace qkv::lab {

/// Those of a comparison that names none; for pairs of texts without the one without biases.
const std::vector<std::string>& AllArms();
/// The words of ComparisonRequest::equal and varied.
const std::map<std::string, Budget>& Budgets();
const std::map<std::string, Varied>& Varieds();
/// Keys that the runs do not share: the arms set attention, cross-attention and rank, the seeds the seed; all runs
/// begin with new weights and are of equal steps.
std::span<const std::string_view> NotShared();

struct ComparisonRequest {
  std::vector<std::string> data;  // each as DATA of `qkv train`
  std::filesystem::path folder;
  std::vector<std::string> arms = AllArms();
  int64_t seeds = 3;
  std::string equal = "steps";
  std::string varied = {};  // empty: cross-attention for pairs of texts, attention for other data
  train::Settings settings = {};
  std::string command = {};  // for the report
  bool forks = false;        // no threads may be started, as processes are to be forked
};

/// Neither copied nor moved: runs refer to its data and arms.
class Comparison {
 public:
  /// Opens the data, plans the runs, and begins or continues the comparison in the folder. note: what was found and
  /// chosen. Throws Error for a request that is none, and if the folder holds another comparison or files of the user;
  /// nothing is written then.
  Comparison(const ComparisonRequest& request, const app::Note& note);
  Comparison(const Comparison&) = delete;
  Comparison& operator=(const Comparison&) = delete;

  const std::vector<PlannedRun>& runs() const { return runs_; }
  const AblationResults& results() const { return results_; }
  const std::filesystem::path& folder() const { return folder_; }

  /// Reads the finished runs, and writes the report.
  void Report();
  /// Measures the arms' models too, when all work is done.
  void ReportSpeeds();

 private:
  void OpenData(const ComparisonRequest& request, train::Settings* shared, const app::Note& note);
  void ParseArms(const ComparisonRequest& request, const train::Settings& shared);
  void PlanRuns(const ComparisonRequest& request, const train::Settings& shared);
  void Describe(const ComparisonRequest& request);
  void RequireSame(const ComparisonRequest& request) const;

  const std::filesystem::path folder_;
  std::vector<AblationData> data_;
  Varied varied_ = Varied::kLayers;
  std::vector<Arm> arms_;
  train::TrainConfig config_;  // shared by all runs
  std::vector<PlannedRun> runs_;
  AblationResults results_;
};

/// Callbacks of TrainRuns; each may be empty.
struct RunsObserver {
  std::function<train::Observer(size_t run)> run;  // of each run that is trained, before it
  std::function<void(size_t run, const RunResult& result)> ended;
  std::function<void(size_t run, const std::string& why)> failed;  // it is left out
  std::function<bool()> stop;                                      // see train::Observer
};

/// Trains the runs that are not finished and that no other process trains; a stopped run is resumed. A note of several
/// runs is told once.
void TrainRuns(const std::vector<PlannedRun>& runs, const RunsObserver& observer);

}  // namespace qkv::lab
