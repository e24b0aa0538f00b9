// Confidence intervals of a mean by Student's t, for samples and for paired differences.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

namespace qkv::lab {

/// A number that was not measured.
inline constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// Quantile of Student's t: |t| stays below it with this probability, for `freedom` degrees of freedom; for 0.95 and 4:
/// 2.776. Throws Error unless 0 < probability < 1 and freedom >= 1.
double StudentT(double probability, int64_t freedom);

/// mean ± half is a 95 % confidence interval of the mean, for independent, roughly normal values. With one value `half`
/// is infinite, with none both are NaN.
struct Interval {
  double mean = 0, half = 0;
};
Interval MeanInterval(std::span<const double> values);

/// The interval of a[i] − b[i]; effects common to both, such as a seed, cancel. Throws Error if the sizes differ.
Interval PairedInterval(std::span<const double> a, std::span<const double> b);

}  // namespace qkv::lab
