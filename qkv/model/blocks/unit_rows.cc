#include "qkv/model/blocks/unit_rows.h"

#include <cmath>

namespace qkv::model {

int64_t NormaliseRows(View<float> x) {
  const int64_t D = x.dim(1);
  int64_t without = -1;
  for (int64_t r = x.dim(0) - 1; r >= 0; --r) {
    float* const row = x.row(r);
    double squares = 0;
    for (int64_t d = 0; d < D; ++d) squares += double{row[d]} * row[d];
    if (!std::isfinite(squares) || squares == 0) without = r;
    const double length = std::sqrt(squares);
    for (int64_t d = 0; d < D; ++d) row[d] = static_cast<float>(row[d] / length);
  }
  return without;
}

}  // namespace qkv::model
