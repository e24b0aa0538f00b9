#include "qkv/lab/plan_grid.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "qkv/core/turns.h"
#include "qkv/lab/plan_timing.h"
#include "qkv/lab/plan_trial.h"

namespace qkv::lab {
namespace {

using attention::Plan;
using attention::Workload;

constexpr double kMostOperations = 4e8;  // multiply-adds of a shape
constexpr double kNotClose = 3;          // not measured if predicted to take so many times the best
constexpr double kContends = 1.25;       // measured again if it took up to so many times the best

template <typename T>
MeasuredPlans MeasurePlans(const Workload& w, const Costs& costs, double seconds) {
  const Plan always[] = {FastestPlan<T>(w, costs), CheapestPlan(w), Plan{}};
  const double least = PredictSeconds<T>(always[0], w, costs);
  MeasuredPlans measured;
  for (const Plan& plan : PossiblePlans(w)) {
    const double predicted = PredictSeconds<T>(plan, w, costs);
    if (predicted > kNotClose * least && std::find(std::begin(always), std::end(always), plan) == std::end(always))
      continue;
    measured.plans.push_back(plan);
    measured.predicted.push_back(predicted);
  }
  Trial<T> trial(w);
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

}  // namespace

double MeasuredPlans::Best() const { return *std::min_element(seconds.begin(), seconds.end()); }

double MeasuredPlans::Of(const Plan& plan) const {
  return seconds[static_cast<size_t>(std::find(plans.begin(), plans.end(), plan) - plans.begin())];
}

double PlanChoice::worst() const { return *std::max_element(ratios.begin(), ratios.end()); }

double PlanChoice::mean() const {
  double sum = 0;
  for (const double ratio : ratios) sum += std::log(ratio);
  return std::exp(sum / static_cast<double>(ratios.size()));
}

double PlanChoice::Share(double limit) const {
  return static_cast<double>(std::count_if(ratios.begin(), ratios.end(), [&](double r) { return r <= limit; })) /
         static_cast<double>(ratios.size());
}

template <typename T>
PlanGrid MeasurePlanGrid(double seconds,
                         const std::function<void(const Workload&, const MeasuredPlans&, const Plan& chosen)>& use) {
  const Costs costs = MeasureCosts<T>();
  Rng rng(2000);  // not the shapes that the costs were fitted to
  PlanGrid grid;
  std::vector<double> errors;
  for (int shape = 0; shape < PlanGrid::kShapes; ++shape) {
    const Workload w = RandomWorkload(rng, kMostOperations);
    const MeasuredPlans measured = MeasurePlans<T>(w, costs, seconds / PlanGrid::kShapes);
    const Plan chosen = FastestPlan<T>(w, costs);
    const double best = measured.Best();
    grid.predicted.ratios.push_back(measured.Of(chosen) / best);
    grid.cheapest.ratios.push_back(measured.Of(CheapestPlan(w)) / best);
    grid.projected.ratios.push_back(measured.Of({}) / best);
    for (size_t i = 0; i < measured.plans.size(); ++i) {
      errors.push_back(std::abs(measured.predicted[i] / measured.seconds[i] - 1));
    }
    use(w, measured, chosen);
  }
  std::sort(errors.begin(), errors.end());
  grid.median_error = errors[errors.size() / 2];
  return grid;
}

template PlanGrid MeasurePlanGrid<float>(
    double, const std::function<void(const Workload&, const MeasuredPlans&, const Plan&)>&);
template PlanGrid MeasurePlanGrid<double>(
    double, const std::function<void(const Workload&, const MeasuredPlans&, const Plan&)>&);

}  // namespace qkv::lab
