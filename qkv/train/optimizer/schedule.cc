#include "qkv/train/optimizer/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "qkv/core/error.h"

namespace qkv::train {
namespace {

// Half a cosine from `from` at 0 to `to` at 1.
double Anneal(double from, double to, double progress) {
  return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * progress));
}

double OneCycle(const Schedule& s, double step) {
  const double start = s.peak / s.start_divisor, end = start / s.end_divisor;
  const double top = s.rise * static_cast<double>(s.steps) - 1, last = static_cast<double>(s.steps - 1);
  if (step >= last) return end;
  // A rise of less than one step is skipped: the schedule starts at the peak.
  if (step <= top) return top > 0 ? Anneal(start, s.peak, step / top) : s.peak;
  return Anneal(s.peak, end, (step - std::max(top, 0.0)) / (last - std::max(top, 0.0)));
}

}  // namespace

void Validate(const Schedule& s) {
  Require(s.peak > 0 && std::isfinite(s.peak), "schedule: expected a learning rate above 0, got {}", s.peak);
  Require(s.steps >= 1, "schedule: expected 1 step at least, got {}", s.steps);
  if (s.kind == Schedule::Kind::kOneCycle) {
    Require(s.rise >= 0 && s.rise <= 1, "schedule: expected a rise of 0 to 1 of the steps, got {}", s.rise);
    Require(s.start_divisor >= 1 && s.end_divisor >= 1,
            "schedule: expected divisors of the learning rate of 1 at least, got {} and {}", s.start_divisor,
            s.end_divisor);
    return;
  }
  Require(s.warmup >= 0 && s.warmup < s.steps, "schedule: expected a warm-up shorter than the {} steps, got {}",
          s.steps, s.warmup);
  Require(s.floor >= 0 && s.floor <= s.peak, "schedule: expected a least learning rate of 0 to {}, got {}", s.peak,
          s.floor);
}

double LearningRate(const Schedule& s, int64_t step) {
  if (s.kind == Schedule::Kind::kOneCycle) return OneCycle(s, static_cast<double>(step));
  if (step < s.warmup) return s.peak * static_cast<double>(step + 1) / static_cast<double>(s.warmup + 1);
  if (s.kind == Schedule::Kind::kConstant) return s.peak;
  if (s.kind == Schedule::Kind::kInverseSqrt) {
    const auto last = static_cast<double>(std::min(step, s.steps) + 1);
    return s.peak * std::sqrt(static_cast<double>(s.warmup + 1) / last);
  }
  const double progress = static_cast<double>(step - s.warmup) / static_cast<double>(s.steps - s.warmup);
  return Anneal(s.peak, s.floor, std::min(progress, 1.0));
}

}  // namespace qkv::train
