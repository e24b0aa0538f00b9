#include "qkv/explore/features.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "qkv/algebra/components.h"
#include "qkv/simd/gemm/matmul.h"

namespace qkv::explore {
namespace {

constexpr double kTail = 0.02;  // of the values on either side, clamped: one odd patch must not take all colours

// Scaled between the two percentiles.
void FillChannel(std::span<const double> values, int64_t channel, Tensor<uint8_t>& colours) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const auto at = [&](double part) {
    return sorted[static_cast<size_t>(part * static_cast<double>(sorted.size() - 1))];
  };
  const double low = at(kTail), high = at(1 - kTail);
  for (size_t i = 0; i < values.size(); ++i) {
    const double part = high > low ? (values[i] - low) / (high - low) : 0.5;
    colours[static_cast<int64_t>(i) * 3 + channel] =
        static_cast<uint8_t>(std::lround(255 * std::clamp(part, 0.0, 1.0)));
  }
}

}  // namespace

FeatureColours ColoursOf(View<const float> rows) {
  const int64_t R = rows.dim(0);
  const algebra::PrincipalComponents components = algebra::FindPrincipalComponents(rows, 3);
  FeatureColours result{Tensor<uint8_t>({R, 3}), Tensor<float>({3})};
  for (int64_t c = 0; c < 3; ++c) {
    result.shares[c] = static_cast<float>(components.shares[c]);
    FillChannel({components.places.data() + c * R, static_cast<size_t>(R)}, c, result.colours);
  }
  return result;
}

float Cosine(std::span<const float> a, std::span<const float> b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    ab += x * y, aa += x * x, bb += y * y;
  }
  return aa > 0 && bb > 0 ? static_cast<float>(ab / std::sqrt(aa * bb)) : 0;
}

Tensor<float> Cosines(View<const float> rows) {
  const int64_t R = rows.dim(0), D = rows.dim(1);
  auto unit = Tensor<float>::Uninitialised({R, D});
  for (int64_t r = 0; r < R; ++r) {
    double square = 0;
    for (int64_t d = 0; d < D; ++d) square += static_cast<double>(rows.row(r)[d]) * static_cast<double>(rows.row(r)[d]);
    const double factor = square > 0 ? 1 / std::sqrt(square) : 0;
    for (int64_t d = 0; d < D; ++d) unit[r * D + d] = static_cast<float>(factor * static_cast<double>(rows.row(r)[d]));
  }
  auto cosines = Tensor<float>::Uninitialised({R, R});
  simd::MatMul<float>(unit, simd::Transposed(View<const float>(unit)), cosines);
  return cosines;
}

}  // namespace qkv::explore
