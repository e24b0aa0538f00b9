// qkv qk plan --grid: how often the planner's choice is the fastest.
#include <fmt/format.h>

#include "cli/output.h"
#include "cli/qk_plan.h"
#include "qkv/lab/plan_grid.h"
#include "qkv/report/table.h"
#include "qkv/report/text.h"

namespace qkv::cli {
namespace {

using attention::Plan;
using attention::Workload;

io::Json ShapeJson(const Workload& w, const lab::MeasuredPlans& measured, const Plan& chosen) {
  io::Json json = {{"queries", w.queries},       {"tokens", w.keys},
                   {"width", w.width},           {"heads", w.heads},
                   {"head_width", w.head_width}, {"batch", w.batch},
                   {"latent", w.latent},         {"read", w.read == attention::Read::kScores ? "scores" : "outputs"}};
  for (size_t i = 0; i < measured.plans.size(); ++i) {
    json["orders"].push_back({{"scores", Name(measured.plans[i].scores)},
                              {"outputs", Name(measured.plans[i].outputs)},
                              {"predicted_ms", 1e3 * measured.predicted[i]},
                              {"measured_ms", 1e3 * measured.seconds[i]}});
  }
  json["chosen"] = {Name(chosen.scores), Name(chosen.outputs)};
  json["of_best"] = measured.Of(chosen) / measured.Best();
  return json;
}

template <typename T>
int Run(const QkPlanOptions& options) {
  const lab::PlanGrid grid = lab::MeasurePlanGrid<T>(
      options.seconds, [&](const Workload& w, const lab::MeasuredPlans& measured, const Plan& chosen) {
        if (options.json) PrintJsonLine(ShapeJson(w, measured, chosen));
      });
  if (options.json) {
    PrintJsonLine(io::Json{{"shapes", lab::PlanGrid::kShapes},
                           {"dtype", options.dtype},
                           {"best", grid.predicted.best()},
                           {"within_5_percent", grid.predicted.as_good()},
                           {"worst", grid.predicted.worst()},
                           {"fewest_multiply_adds_within_5_percent", grid.cheapest.as_good()},
                           {"projected_within_5_percent", grid.projected.as_good()},
                           {"median_error_of_prediction", grid.median_error}});
    return 0;
  }
  report::Table table;
  table.columns = {{"choice", report::Align::kLeft}, {"is the best"}, {"within 5 %"}, {"times the best"}, {"at worst"}};
  const std::pair<const char*, const lab::PlanChoice*> choices[] = {{"predicted fastest", &grid.predicted},
                                                                    {"fewest multiply-adds", &grid.cheapest},
                                                                    {"always projected", &grid.projected}};
  for (const auto& [name, choice] : choices) {
    table.rows.push_back({name, fmt::format("{:.1f} %", 100 * choice->best()),
                          fmt::format("{:.1f} %", 100 * choice->as_good()), report::Number(choice->mean()),
                          report::Number(choice->worst())});
  }
  Print(
      "{} shapes, {}; seconds of the choice by those of the fastest order\n\n{}\nA prediction is off by {:.0f} % "
      "in the median.\n",
      lab::PlanGrid::kShapes, options.dtype, EscapedText{ToText(table)}, 100 * grid.median_error);
  return 0;
}

}  // namespace

int PlanGrid(const QkPlanOptions& options) {
  return options.dtype == "fp64" ? Run<double>(options) : Run<float>(options);
}

}  // namespace qkv::cli
