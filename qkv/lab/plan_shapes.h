// The orders of attention's products for one shape, side by side: what they cost, and in words whether merging and
// absorbing pay. Not here: the costs (attention/plan.h), and predicting times (plan_timing.h).
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/attention/plan.h"
#include "qkv/io/json.h"
#include "qkv/lab/plan_timing.h"
#include "qkv/report/table.h"

namespace qkv::lab {

/// The shape with what it leaves open: 197 tokens, all of them read, heads that share the width. Throws Error if they
/// cannot.
attention::Workload Complete(attention::Workload workload);

struct PlanRow {
  attention::Plan plan;
  double multiply_adds = 0, beforehand = 0;   // beforehand: of the matrices that are merged once
  double bytes = 0;                           // read and written
  std::optional<double> predicted, measured;  // seconds
};

struct ShapePlans {
  attention::Workload workload;
  std::vector<PlanRow> rows;               // one order for both chains, and what is chosen
  attention::Plan cheapest;                // of the fewest multiply-adds
  std::optional<attention::Plan> fastest;  // measured if that was done, else predicted
};

/// T: of the elements. costs: of this machine, for predictions; or null. Throws Error if a size is missing.
template <typename T>
ShapePlans ListPlans(const attention::Workload& workload, const Costs* costs);

report::Table ToTable(const ShapePlans& plans);
/// With the sentences below.
io::Json ToJson(const ShapePlans& plans);

/// "merged", or "merged, projected" if the two chains differ.
std::string PlanName(const attention::Plan& plan, const attention::Workload& workload);

inline constexpr std::array kUnmerged = {attention::Order::kProjected, attention::Order::kAbsorbed,
                                         attention::Order::kKeysAbsorbed};
/// Whether merging pays against the best of these orders, and why, in numbers.
std::string MergingVerdict(const attention::Workload& workload, std::span<const attention::Order> unmerged = kUnmerged);
/// Whether there are few enough rows for absorbing; empty if it is not possible at all.
std::string AbsorbingVerdict(const attention::Workload& workload);

/// "30.0 G"
std::string ShortCount(double count);

}  // namespace qkv::lab
