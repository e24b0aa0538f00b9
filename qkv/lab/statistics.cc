#include "qkv/lab/statistics.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <unsupported/Eigen/SpecialFunctions>
#include <vector>

#include "qkv/core/error.h"

namespace qkv::lab {
namespace {

// P(|T| > t) = I_{ν / (ν + t²)}(ν / 2, 1 / 2) (Abramowitz and Stegun 1964, 26.7.1 with 26.5.27).
double Outside(double t, double freedom) {
  return Eigen::numext::betainc(freedom / 2, 0.5, freedom / (freedom + t * t));
}

}  // namespace

double StudentT(double probability, int64_t freedom) {
  Require(probability > 0 && probability < 1, "Student's t: a probability of {}, expected one between 0 and 1",
          probability);
  Require(freedom >= 1, "Student's t: {} degrees of freedom, expected at least 1", freedom);
  const auto nu = static_cast<double>(freedom);
  double low = 0, high = 1;
  while (Outside(high, nu) > 1 - probability) low = high, high *= 2;
  while (high - low > 1e-12 * high) {
    const double middle = (low + high) / 2;
    (Outside(middle, nu) > 1 - probability ? low : high) = middle;
  }
  return (low + high) / 2;
}

Interval MeanInterval(std::span<const double> values) {
  if (values.empty()) return {kNone, kNone};
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  if (values.size() == 1) return {mean, std::numeric_limits<double>::infinity()};
  double squares = 0;
  for (const double x : values) squares += (x - mean) * (x - mean);
  return {mean, StudentT(0.95, std::ssize(values) - 1) * std::sqrt(squares / (n - 1) / n)};
}

Interval PairedInterval(std::span<const double> a, std::span<const double> b) {
  Require(a.size() == b.size(), "paired differences: {} values and {}", a.size(), b.size());
  std::vector<double> differences(a.size());
  for (size_t i = 0; i < a.size(); ++i) differences[i] = a[i] - b[i];
  return MeanInterval(differences);
}

}  // namespace qkv::lab
