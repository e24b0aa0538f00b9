// The claims of three texts on queries, keys and values, replayed on this machine: what each says, what was run, what
// theory predicts, what was measured, and what is true of it. Results are data; page.h makes a document of them.
// The numbers are those of the texts' own sizes first, then of trained weights, then beyond both.
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
  kObserved  // nothing is predicted that must come true: a time, or what one model's training gave
};

struct Check {
  std::string what;
  Relation relation = Relation::kObserved;
  double predicted = std::numeric_limits<double>::quiet_NaN();
  double measured = 0;
  double tolerance = 0;
  std::string unit;  // "s" is written in the unit that fits

  bool holds() const;
};

/// "= 3.00", "≤ 0", or "" for what is only observed.
std::string Predicted(const Check& check);
std::string Measured(const Check& check);

struct Picture {
  std::variant<report::LineChart, report::BarChart, report::Heatmap, report::Scatter, report::IntervalChart> chart;
  std::string caption;
};

struct Result {
  std::string id;     // "C4"
  std::string title;  // in a few words
  std::string claim;  // in a sentence, in our words
  std::string run;    // what was computed
  Verdict verdict = Verdict::kHolds;
  std::string reason;
  std::vector<Check> checks;
  std::vector<report::Table> tables;
  std::vector<Picture> pictures;

  /// Whether what was measured is what theory gives; if not, something here is broken.
  bool agrees() const;
  const Check* Find(std::string_view what) const;  // null where there is none
};

/// What the claims are replayed on.
struct Setup {
  const model::Checkpoint* checkpoint = nullptr;  // trained weights, with separate queries and keys
  std::span<const image::Image> images;           // for that model; without any, ten digits are drawn
  uint64_t seed = 1;
  bool quick = false;                          // smaller sizes where a claim is about time
  std::span<const AblationResults> ablations;  // what trainings came to, for C6 and C11
};

/// "C1" … "C18".
std::span<const std::string_view> ClaimIds();

/// Replays these claims in their order. `done`, when there is one, is shown each result as it comes.
/// Throws Error for a claim that is not among ClaimIds, without a checkpoint, or for one whose queries and keys are
/// not projections of their own.
std::vector<Result> ReplayClaims(const Setup& setup, std::span<const std::string> ids,
                                 const std::function<void(const Result&)>& done = {});

}  // namespace qkv::lab
