#include "qkv/app/timing/drift.h"

#include <algorithm>
#include <cmath>

namespace qkv::app {
namespace {

int64_t First(const Tensor<float>& logits, int64_t row) {
  const float* values = logits.view().row(row);
  return std::max_element(values, values + logits.dim(1)) - values;
}

}  // namespace

Drift ComputeDrift(const Tensor<float>& logits, const Tensor<float>& exact) {
  Drift drift;
  const int64_t images = exact.dim(0), outputs = exact.dim(1);
  for (int64_t i = 0; i < images; ++i) {
    const float *a = logits.view().row(i), *b = exact.view().row(i);
    double ab = 0, aa = 0, bb = 0;
    for (int64_t j = 0; j < outputs; ++j) {
      ab += double{a[j]} * b[j], aa += double{a[j]} * a[j], bb += double{b[j]} * b[j];
    }
    drift.cosine += ab / std::sqrt(aa * bb);
    drift.top1 += First(logits, i) == First(exact, i);
  }
  drift.cosine /= static_cast<double>(images);
  drift.top1 /= static_cast<double>(images);
  return drift;
}

}  // namespace qkv::app
