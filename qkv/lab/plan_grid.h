// Tests the planner on shapes that its costs were not fitted to: all orders that come close are measured.
#pragma once

#include <functional>
#include <vector>

#include "qkv/attention/plan.h"

namespace qkv::lab {

/// The orders of one shape that were measured, in seconds.
struct MeasuredPlans {
  std::vector<attention::Plan> plans;
  std::vector<double> predicted, seconds;

  double Best() const;
  double Of(const attention::Plan& plan) const;
};

/// Quality of a way of choosing over all shapes: seconds of its choice divided by those of the best.
struct PlanChoice {
  std::vector<double> ratios;

  double best() const { return Share(1); }
  double as_good() const { return Share(kAsGood); }
  double worst() const;
  double mean() const;  // geometric

 private:
  static constexpr double kAsGood = 1.05;

  double Share(double limit) const;
};

struct PlanGrid {
  static constexpr int kShapes = 200;

  PlanChoice predicted, cheapest, projected;  // the planner's, the fewest multiply-adds, always projected
  double median_error = 0;                    // of predictions, relative
};

/// Measures random shapes for about so many seconds in all; `use` receives each with its orders and the planner's
/// choice. T: float or double.
template <typename T>
PlanGrid MeasurePlanGrid(
    double seconds,
    const std::function<void(const attention::Workload&, const MeasuredPlans&, const attention::Plan& chosen)>& use);

}  // namespace qkv::lab
