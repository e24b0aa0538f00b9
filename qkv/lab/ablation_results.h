// What the runs of an ablation came to, one by one and together, and the file that keeps it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/lab/statistics.h"

namespace qkv::lab {

/// What is known of a run when it has ended.
struct RunResult {
  std::string data;  // that it was trained on, in a word
  std::string arm;
  int64_t seed = 0;
  double top1 = 0, loss = 0;  // of the validation data after the last step, which nobody chose
  double train_top1 = 0;      // of the steps since the last evaluation but one
  int64_t steps = 0;
  int64_t parameters = 0;
  double flops = 0;                                     // of an image or a sequence, forward
  double symmetry = 0, effective_rank = 0, rank99 = 0;  // of M, means over all heads; NaN where scores are of no tokens

  std::string ToJson() const;
  /// Throws Error that begins with `where` for anything that ToJson has not written.
  static RunResult FromJson(std::string_view text, std::string_view where);
};

/// Reads the folder of a run that has ended. Throws Error when it has not.
RunResult ReadRun(const std::filesystem::path& folder, std::string_view data, std::string_view arm, int64_t seed);

/// Images or sequences a second of an arm's model, measured with all others in turns; 0 where it was not measured.
struct Speed {
  double training = 0, inference = 0;
};

/// A whole comparison, finished or not: all that its report says.
struct AblationResults {
  std::string title;                                       // "Kinds of attention on cifar10"
  std::vector<std::pair<std::string, std::string>> facts;  // what was run, and on what
  std::vector<std::string> arms;                           // the first is what the others are compared with
  std::string unit = "images";                             // what the runs were trained on, or "sequences"
  int64_t planned = 0;                                     // runs
  std::vector<RunResult> runs;                             // that have ended
  std::map<std::string, Speed, std::less<>> speeds;        // by arm, on the first data set

  /// What the runs were trained on, in their order.
  std::vector<std::string> Data() const;
  std::string ToJson() const;
  /// Throws Error that begins with `where` for anything that ToJson has not written.
  static AblationResults FromJson(std::string_view text, std::string_view where);
};

/// What the runs of one arm on one data set say.
struct ArmSummary {
  std::string arm;
  std::vector<const RunResult*> runs;  // by seed, at least one
  Interval top1, loss;
  Interval difference;                                                  // of top1 to the first arm; of that itself NaN
  double train_top1 = 0, symmetry = 0, effective_rank = 0, rank99 = 0;  // means
};

/// In the order of the arms; those without a run are left out. The summaries point into `results`.
std::vector<ArmSummary> Summarise(const AblationResults& results, std::string_view data);

/// top1 of one arm less that of another, over the seeds that both have; NaN where they have none.
Interval Difference(const AblationResults& results, std::string_view data, std::string_view arm,
                    std::string_view other);

}  // namespace qkv::lab
