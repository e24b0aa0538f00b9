#include "qkv/nn/gaussian_places.h"

#include <algorithm>

#include "qkv/core/error.h"
#include "qkv/nn/block_config.h"

namespace qkv::nn {

template <typename T>
void GaussianPlaces(View<const T> bandwidth, int64_t prefix, int64_t grid_height, int64_t grid_width, View<T> places) {
  const int64_t H = bandwidth.size(), N = prefix + grid_height * grid_width;
  Require(places.shape() == Shape({2, H, N, kGaussianFeatures}) && places.dense(),
          "gaussian places: expected [2, {}, {}, {}], got {}", H, N, kGaussianFeatures, places.shape());
  std::fill_n(places.data(), places.size(), T(0));
  for (int64_t h = 0; h < H; ++h) {
    const double precision = 1 / (static_cast<double>(bandwidth.data()[h]) * static_cast<double>(bandwidth.data()[h]));
    for (int64_t patch = 0; patch < grid_height * grid_width; ++patch) {
      // Coordinates relative to the centre, where the squares are smallest.
      const double y = static_cast<double>(patch / grid_width) - static_cast<double>(grid_height - 1) / 2,
                   x = static_cast<double>(patch % grid_width) - static_cast<double>(grid_width - 1) / 2,
                   half_square = (y * y + x * x) / 2;
      const double query[kGaussianFeatures] = {y, x, 1, -half_square}, key[kGaussianFeatures] = {y, x, -half_square, 1};
      for (int64_t i = 0; i < kGaussianFeatures; ++i) {
        *places.at(0, h, prefix + patch, i) = static_cast<T>(query[i]);
        *places.at(1, h, prefix + patch, i) = static_cast<T>(key[i] * precision);
      }
    }
  }
}

template void GaussianPlaces(View<const float>, int64_t, int64_t, int64_t, View<float>);
template void GaussianPlaces(View<const double>, int64_t, int64_t, int64_t, View<double>);

}  // namespace qkv::nn
