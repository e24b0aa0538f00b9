// Replays the claims of three texts on queries, keys and values on this machine: the claim, the experiment, prediction,
// measurement and verdict. Results are data; page.h renders them. Sizes are those of the texts first, then trained
// weights, then larger.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "qkv/image/image.h"
#include "qkv/lab/ablation_results.h"
#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/report/charts.h"
#include "qkv/report/heatmap.h"
#include "qkv/report/table.h"

namespace qkv::lab {

enum class Verdict { kHolds, kHoldsUnderConditions, kDoesNotHold, kOpen, kNotMeasured };

/// "holds", "holds under conditions", "does not hold", "left open", "not measured"
std::string_view Name(Verdict verdict);

enum class Relation {
  kEquals,   // |measured − predicted| <= tolerance
  kAtMost,   // measured <= predicted + tolerance
  kAtLeast,  // measured >= predicted − tolerance
  kObserved  // no prediction: a time, or the outcome of one training
};

struct Check {
  std::string what;
  Relation relation = Relation::kObserved;
  double predicted = std::numeric_limits<double>::quiet_NaN();
  double measured = 0;
  double tolerance = 0;
  std::string unit;  // "s" is shown in a suitable unit

  bool holds() const;
};

/// "= 3.00", "≤ 0", or "" without a prediction.
std::string Predicted(const Check& check);
std::string Measured(const Check& check);

struct Picture {
  std::variant<report::LineChart, report::BarChart, report::Heatmap, report::Scatter, report::IntervalChart> chart;
  std::string caption;
};

struct Result {
  std::string id;     // "C4"
  std::string title;  // in a few words
  std::string claim;  // one sentence, in our words
  std::string run;    // what was computed
  Verdict verdict = Verdict::kHolds;
  std::string reason;
  std::vector<Check> checks;
  std::vector<report::Table> tables;
  std::vector<Picture> pictures;

  /// True if every check holds; otherwise this program has an error.
  bool agrees() const;
  const Check* Find(std::string_view what) const;  // null if there is none
};

/// Inputs of the replay.
struct Setup {
  const model::Checkpoint* checkpoint = nullptr;  // trained weights, with separate queries and keys
  std::span<const image::Image> images;           // for that model; if empty, ten digits are drawn
  uint64_t seed = 1;
  bool quick = false;                          // smaller sizes for claims about time
  std::span<const AblationResults> ablations;  // results of trainings, for C6, C11 and C19
  std::string translator = {};                 // folder of an encoder-decoder, for C20 to C22; or empty
  std::string pairs = {};                      // its pairs of texts; empty: test.tsv in its folder
  int64_t lines = 40;                          // of these, the first that are short enough
};

/// "C1" … "C22".
std::span<const std::string_view> ClaimIds();

/// Replays these claims in their order and calls `done`, if given, with each result. Throws Error for an id not in
/// ClaimIds, without a checkpoint, or if the checkpoint's queries and keys have no projections of their own.
std::vector<Result> ReplayClaims(const Setup& setup, std::span<const std::string> ids,
                                 const std::function<void(const Result&)>& done = {});

}  // namespace qkv::lab
