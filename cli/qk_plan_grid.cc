// qkv qk plan --grid: tests the planner on shapes that its costs were not fitted to, with all orders that come close.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cli/bench.h"
#include "cli/output.h"
#include "cli/qk_plan.h"
#include "qkv/lab/plan_timing.h"
#include "qkv/lab/plan_trial.h"
#include "qkv/report/table.h"
#include "qkv/report/text.h"

namespace qkv::cli {
namespace {

using attention::Plan;
using attention::Workload;

constexpr int kShapes = 200;
constexpr double kMostOperations = 4e8;  // multiply-adds of a shape
constexpr double kNotClose = 3;          // not measured if predicted to take so many times the best
constexpr double kContends = 1.25;       // measured again if it took up to so many times the best
constexpr double kAsGood = 1.05;

// Quality of a way of choosing over all shapes: seconds of its choice divided by those of the best.
struct Choice {
  std::vector<double> ratios;

  double best() const { return Share(1); }
  double as_good() const { return Share(kAsGood); }
  double worst() const { return *std::max_element(ratios.begin(), ratios.end()); }
  double mean() const {
    double sum = 0;
    for (const double ratio : ratios) sum += std::log(ratio);
    return std::exp(sum / static_cast<double>(ratios.size()));
  }
  double Share(double limit) const {
    return static_cast<double>(std::count_if(ratios.begin(), ratios.end(), [&](double r) { return r <= limit; })) /
           static_cast<double>(ratios.size());
  }
};

struct Measured {
  std::vector<Plan> plans;
  std::vector<double> predicted, seconds;

  double Best() const { return *std::min_element(seconds.begin(), seconds.end()); }
  double Of(const Plan& plan) const {
    return seconds[static_cast<size_t>(std::find(plans.begin(), plans.end(), plan) - plans.begin())];
  }
};

template <typename T>
Measured MeasurePlans(const Workload& w, const lab::Costs& costs, double seconds) {
  const Plan always[] = {FastestPlan<T>(w, costs), CheapestPlan(w), Plan{}};
  const double least = PredictSeconds<T>(always[0], w, costs);
  Measured measured;
  for (const Plan& plan : lab::PossiblePlans(w)) {
    const double predicted = PredictSeconds<T>(plan, w, costs);
    if (predicted > kNotClose * least && std::find(std::begin(always), std::end(always), plan) == std::end(always))
      continue;
    measured.plans.push_back(plan);
    measured.predicted.push_back(predicted);
  }
  lab::Trial<T> trial(w);
  for (const Plan& plan : measured.plans) trial.Prepare(plan);
  measured.seconds.assign(measured.plans.size(), std::numeric_limits<double>::infinity());
  const auto run = [&](const std::vector<size_t>& which, double share) {
    const std::vector<Times> times =
        Interleave(which.size(), share * seconds, [&](size_t i) { trial.Run(measured.plans[which[i]]); });
    for (size_t i = 0; i < which.size(); ++i) {
      measured.seconds[which[i]] = std::min(measured.seconds[which[i]], times[i].best() / 1e3);
    }
  };
  // First all orders, then those that may be the best or were chosen: the deciding ones are measured most often.
  std::vector<size_t> all(measured.plans.size()), close;
  std::iota(all.begin(), all.end(), size_t{0});
  run(all, 0.3);
  const double best = measured.Best();
  for (const size_t i : all) {
    const bool chosen = std::find(std::begin(always), std::end(always), measured.plans[i]) != std::end(always);
    if (measured.seconds[i] < kContends * best || (chosen && measured.seconds[i] < kNotClose * best))
      close.push_back(i);
  }
  run(close, 0.7);
  return measured;
}

io::Json ShapeJson(const Workload& w, const Measured& measured, const Plan& chosen) {
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
  const lab::Costs costs = lab::MeasureCosts<T>();
  Rng rng(2000);  // not the shapes that the costs were fitted to
  Choice predicted, cheapest, projected;
  std::vector<double> errors;
  for (int shape = 0; shape < kShapes; ++shape) {
    const Workload w = lab::RandomWorkload(rng, kMostOperations);
    const Measured measured = MeasurePlans<T>(w, costs, options.seconds / kShapes);
    const Plan chosen = FastestPlan<T>(w, costs);
    const double best = measured.Best();
    predicted.ratios.push_back(measured.Of(chosen) / best);
    cheapest.ratios.push_back(measured.Of(CheapestPlan(w)) / best);
    projected.ratios.push_back(measured.Of({}) / best);
    for (size_t i = 0; i < measured.plans.size(); ++i) {
      errors.push_back(std::abs(measured.predicted[i] / measured.seconds[i] - 1));
    }
    if (options.json) PrintJsonLine(ShapeJson(w, measured, chosen));
  }
  std::sort(errors.begin(), errors.end());
  const double error = errors[errors.size() / 2];
  if (options.json) {
    PrintJsonLine(io::Json{{"shapes", kShapes},
                           {"dtype", options.dtype},
                           {"best", predicted.best()},
                           {"within_5_percent", predicted.as_good()},
                           {"worst", predicted.worst()},
                           {"fewest_multiply_adds_within_5_percent", cheapest.as_good()},
                           {"projected_within_5_percent", projected.as_good()},
                           {"median_error_of_prediction", error}});
    return 0;
  }
  report::Table table;
  table.columns = {{"choice", report::Align::kLeft}, {"is the best"}, {"within 5 %"}, {"times the best"}, {"at worst"}};
  const std::pair<const char*, const Choice*> choices[] = {
      {"predicted fastest", &predicted}, {"fewest multiply-adds", &cheapest}, {"always projected", &projected}};
  for (const auto& [name, choice] : choices) {
    table.rows.push_back({name, fmt::format("{:.1f} %", 100 * choice->best()),
                          fmt::format("{:.1f} %", 100 * choice->as_good()), report::Number(choice->mean()),
                          report::Number(choice->worst())});
  }
  Print(
      "{} shapes, {}; seconds of the choice by those of the fastest order\n\n{}\nA prediction is off by {:.0f} % "
      "in the median.\n",
      kShapes, options.dtype, EscapedText{ToText(table)}, 100 * error);
  return 0;
}

}  // namespace

int PlanGrid(const QkPlanOptions& options) {
  return options.dtype == "fp64" ? Run<double>(options) : Run<float>(options);
}

}  // namespace qkv::cli
