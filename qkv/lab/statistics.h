// What few numbers say about the mean of many: Student's t interval, alone and of paired differences.
#pragma once

#include <cstdint>
#include <span>

namespace qkv::lab {

/// Student's t: the value that |t| stays below with this probability, for `freedom` degrees of it; for 0.95 and
/// 4: 2.776. Throws Error unless 0 < probability < 1 and freedom >= 1.
double StudentT(double probability, int64_t freedom);

/// mean ± half holds the mean of all with a probability of 95 %, if the values are independent and about normal.
/// With one value `half` is infinite, with none both are NaN.
struct Interval {
  double mean = 0, half = 0;
};
Interval MeanInterval(std::span<const double> values);

/// Of a[i] − b[i]: what both share, such as a seed, falls out. Throws Error when they are not equally many.
Interval PairedInterval(std::span<const double> a, std::span<const double> b);

}  // namespace qkv::lab
