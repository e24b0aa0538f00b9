// The learning rate of each step.
#pragma once

#include <cstdint>

namespace qkv::train {

struct Schedule {
  enum class Kind {
    kConstant,
    kCosine,    // half a cosine from the peak to the floor (Loshchilov and Hutter 2017, without restarts)
    kOneCycle,  // two halves of cosines, up and down (Smith and Topin 2018), as torch's OneCycleLR; momentum stays
  };
  Kind kind = Kind::kCosine;
  double peak = 1e-3;  // the greatest learning rate
  int64_t steps = 1;   // of the whole training

  // kConstant and kCosine
  int64_t warmup = 0;  // steps before the peak is reached: step t has (t + 1) / (warmup + 1) of it
  double floor = 0;    // the least learning rate, reached when all steps are done; kCosine

  // kOneCycle: torch's pct_start, div_factor and final_div_factor.
  double rise = 0.3;          // fraction of the steps that go up
  double start_divisor = 25;  // the first learning rate is peak / start_divisor,
  double end_divisor = 1e4;   // the last one that / end_divisor
};

/// Throws Error when the numbers make no schedule.
void Validate(const Schedule& schedule);

/// For step 0, 1, …; behind the last step what that ends with. The schedule must be valid.
double LearningRate(const Schedule& schedule, int64_t step);

}  // namespace qkv::train
