// Shared by the parts of `qkv qk plan`.
#pragma once

#include <string>

#include "cli/command.h"
#include "qkv/attention/plan.h"

namespace qkv::cli {

struct QkPlanOptions {
  ModelOptions model;
  std::string dtype = "fp32";    // of the elements: also "fp64"
  attention::Workload workload;  // width 0: the model's
  std::string cached = "nothing", read = "outputs", map;
  bool measure = false, json = false, grid = false, from_stdin = false;
  double seconds = 2;
};

/// Draws random shapes, predicts and measures their plans, and prints how often the planner's choice is the fastest.
int PlanGrid(const QkPlanOptions& options);

}  // namespace qkv::cli
