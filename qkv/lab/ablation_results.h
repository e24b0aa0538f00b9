// Results of an ablation's runs, their summary per arm, and the file that stores them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/lab/ablation.h"
#include "qkv/lab/statistics.h"

namespace qkv::lab {

/// Result of a finished run.
struct RunResult {
  std::string data;  // short name of the data
  std::string arm;
  int64_t seed = 0;
  double top1 = 0, loss = 0;  // on the validation data after the last step, without model selection
  double train_top1 = 0;      // over the steps since the last evaluation but one
  int64_t steps = 0;
  int64_t parameters = 0;
  double flops = 0;                                     // of Cost
  double symmetry = 0, effective_rank = 0, rank99 = 0;  // of M, means over all heads; NaN for positional scores, pairs
  double bleu = kNone;                                  // 0 to 100, of pairs' validation lines by greedy decoding

  std::string ToJson() const;
  /// Throws Error, prefixed with `where`, for anything that ToJson cannot have written.
  static RunResult FromJson(std::string_view text, std::string_view where);
};

/// Reads the folder of a finished run. Throws Error if it is not finished.
RunResult ReadRun(const std::filesystem::path& folder, const AblationData& data, std::string_view arm, int64_t seed);

/// Images, sequences or pairs per second of an arm's model, interleaved with all others; 0: not measured.
struct Speed {
  double training = 0, inference = 0;
};

/// A whole comparison, finished or not: the content of its report.
struct AblationResults {
  std::string title;                                       // "Kinds of attention on cifar10"
  std::vector<std::pair<std::string, std::string>> facts;  // what was run, and on which data and machine
  std::vector<std::string> arms;                           // the first is the baseline
  std::string unit = "images";                       // unit of the training data: "images", "sequences" or "pairs"
  std::string varied = "attention";                  // Name(Varied)
  int64_t planned = 0;                               // number of runs
  std::vector<RunResult> runs;                       // the finished ones
  std::map<std::string, Speed, std::less<>> speeds;  // by arm, on the first data set

  /// Names of the data sets, in the order of the runs.
  std::vector<std::string> Data() const;
  std::string ToJson() const;
  /// Throws Error, prefixed with `where`, for anything that ToJson cannot have written.
  static AblationResults FromJson(std::string_view text, std::string_view where);
};

/// Summary of one arm's runs on one data set.
struct ArmSummary {
  std::string arm;
  std::vector<const RunResult*> runs;  // by seed, at least one
  Interval top1, loss;
  Interval difference;             // top1 − top1 of the first arm; NaN for the first arm
  Interval bleu, bleu_difference;  // NaN unless of pairs
  double train_top1 = 0, symmetry = 0, effective_rank = 0, rank99 = 0;  // means
};

/// In the order of the arms; arms without a run are omitted. The summaries point into `results`.
std::vector<ArmSummary> Summarise(const AblationResults& results, std::string_view data);

/// `value` of `arm` − that of `other`, over the seeds that both have; NaN without a common seed.
Interval Difference(const AblationResults& results, std::string_view data, std::string_view arm, std::string_view other,
                    double RunResult::*value = &RunResult::top1);

}  // namespace qkv::lab
