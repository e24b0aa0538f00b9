// Error bounds of kernels, from operand norms and the type's epsilon, never one loose number.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace qkv {

/// The unit roundoff of a type: half the distance from 1 to the next number.
template <typename T>
constexpr double UnitRoundoff() {
  return std::numeric_limits<T>::epsilon() / 2;
}

/// Bound on the error of Σ of n products in precision T, with magnitude = Σ|x||w|. The worst case is n · u · magnitude
/// (Higham 2002, §3.1); errors of random sign grow as sqrt(n), and the bound allows 6 standard deviations.
template <typename T>
double DotTolerance(int64_t n, double magnitude) {
  const double terms = std::min(static_cast<double>(n), 6 * std::sqrt(static_cast<double>(n)));
  return (terms + 2) * UnitRoundoff<T>() * magnitude + std::numeric_limits<T>::min();
}

/// Distance of `got` from `exact` in units in the last place of `exact` rounded to T; at least the smallest subnormal
/// per unit. 0 if both are NaN, or the same infinity.
template <typename T>
double UlpError(T got, double exact) {
  if (std::isnan(exact) || std::isnan(got)) {
    return std::isnan(exact) && std::isnan(got) ? 0 : std::numeric_limits<double>::infinity();
  }
  const T rounded = static_cast<T>(exact);
  if (std::isinf(rounded) || std::isinf(got)) {
    if (got == rounded) return 0;
    // The greatest finite number is one unit below infinity.
    return std::isinf(rounded) && std::abs(got) == std::numeric_limits<T>::max()
               ? 1
               : std::numeric_limits<double>::infinity();
  }
  const T magnitude = std::abs(rounded);
  const double ulp = static_cast<double>(std::nextafter(magnitude, std::numeric_limits<T>::infinity())) -
                     static_cast<double>(magnitude);
  return std::abs(static_cast<double>(got) - exact) / ulp;
}

}  // namespace qkv
