#include "qkv/app/attention/weight_bytes.h"

#include <algorithm>
#include <cmath>

#include "qkv/core/parallel.h"

namespace qkv::app {

void WeightBytes(View<const float> weights, uint8_t* bytes, float* scales) {
  const int64_t N = weights.dim(1);
  ParallelFor(weights.dim(0), 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* from = weights.row(row);
      uint8_t* to = bytes + row * N;
      const float greatest = *std::max_element(from, from + N);
      scales[row] = greatest;
      const float factor = greatest > 0 ? 1 / greatest : 0;
      for (int64_t k = 0; k < N; ++k) {
        const float part = std::min(1.0f, std::max(0.0f, from[k] * factor));
        to[k] = static_cast<uint8_t>(255 * std::sqrt(part) + 0.5f);
      }
    }
  });
}

}  // namespace qkv::app
