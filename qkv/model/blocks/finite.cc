#include "qkv/model/blocks/finite.h"

#include <cmath>

namespace qkv::model {

bool AllFinite(const float* x, int64_t n) {
  // x − x is 0 for finite numbers only, and the sums vectorise.
  constexpr int kLanes = 16;
  float sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) sums[lane] += x[i + lane] - x[i + lane];
  }
  bool finite = true;
  for (; i < n; ++i) finite &= std::isfinite(x[i]);
  for (const float sum : sums) finite &= sum == 0;
  return finite;
}

int64_t FirstNotFinite(View<const float> values) {
  const int64_t images = values.dim(0), each = images > 0 ? values.size() / images : 0;
  if (AllFinite(values.data(), values.size())) return -1;
  for (int64_t b = 0; b < images; ++b) {
    if (!AllFinite(values.data() + b * each, each)) return b;
  }
  return -1;
}

}  // namespace qkv::model
