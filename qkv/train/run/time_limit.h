// How many steps fit into a time. Not here: the clock, and the run that takes them (loop.h).
#pragma once

#include <cstdint>

namespace qkv::train {

/// Time that a run takes, in seconds.
struct Pace {
  double step = 0;
  double evaluation = 0;
  int64_t between = 1;  // steps between evaluations
};

/// The most steps after an evaluation that fit into `seconds` together with the evaluations among them and the last one
/// at the end; 0 if not even one step and its evaluation do.
int64_t CountStepsWithin(double seconds, const Pace& pace);

}  // namespace qkv::train
