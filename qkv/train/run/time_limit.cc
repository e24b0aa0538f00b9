#include "qkv/train/run/time_limit.h"

#include <algorithm>
#include <cmath>

#include "qkv/core/error.h"

namespace qkv::train {

int64_t CountStepsWithin(double seconds, const Pace& pace) {
  Require(pace.step > 0 && pace.evaluation >= 0 && pace.between > 0,
          "train: expected a step that takes time, got {} s, with {} s each {} steps", pace.step, pace.evaluation,
          pace.between);
  constexpr double kMost = 0x1p40;  // that the key `steps` takes
  const auto between = static_cast<double>(pace.between);
  const double interval = between * pace.step + pace.evaluation;
  const double intervals = std::floor(std::max(0.0, seconds) / interval);
  const double rest = std::max(0.0, seconds) - intervals * interval;
  const double steps = intervals * between + std::max(0.0, std::floor((rest - pace.evaluation) / pace.step));
  return static_cast<int64_t>(std::min(steps, kMost));
}

}  // namespace qkv::train
