// Learning-rate schedules.
#pragma once

#include <cstdint>

namespace qkv::train {

struct Schedule {
  enum class Kind {
    kConstant,
    kCosine,       // half a cosine from peak to floor (Loshchilov and Hutter 2017, without restarts)
    kInverseSqrt,  // peak · √(warmup + 1) / √(step + 1) after the warm-up (Vaswani et al. 2017, §5.3)
    kOneCycle,     // half-cosine up, then down (Smith and Topin 2018), as torch's OneCycleLR; momentum is constant
  };
  Kind kind = Kind::kCosine;
  double peak = 1e-3;  // the greatest learning rate
  int64_t steps = 1;   // of the whole run

  // All but kOneCycle
  int64_t warmup = 0;  // steps before the peak: step t has (t + 1) / (warmup + 1) of it
  double floor = 0;    // the least learning rate, reached after the last step; kCosine

  // kOneCycle: torch's pct_start, div_factor and final_div_factor.
  double rise = 0.3;          // fraction of the steps with a rising rate
  double start_divisor = 25;  // the first learning rate is peak / start_divisor,
  double end_divisor = 1e4;   // the last one is that / end_divisor
};

/// Throws Error if the schedule is invalid.
void Validate(const Schedule& schedule);

/// The rate of step 0, 1, …; after the last step it stays at the final rate. The schedule must be valid.
double LearningRate(const Schedule& schedule, int64_t step);

}  // namespace qkv::train
