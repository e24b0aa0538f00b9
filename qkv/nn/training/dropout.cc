#include "qkv/nn/training/dropout.h"

#include "qkv/core/dropout_hash.h"
#include "qkv/core/rng.h"
#include "qkv/nn/ranges.h"
#include "qkv/simd/rows/elementwise_backward.h"

namespace qkv::nn {
namespace {

void RequireProbability(const Dropout& dropout) {
  Require(dropout.probability >= 0 && dropout.probability < 1, "dropout: expected 0 <= probability < 1, got {}",
          dropout.probability);
}

uint64_t RandomBits(const Dropout& dropout, int64_t index) {
  return MixSeed(dropout.seed, static_cast<uint64_t>(dropout.first + index));
}

}  // namespace

template <typename T>
void ApplyDropout(const Dropout& dropout, View<T> x) {
  RequireProbability(dropout);
  if (dropout.probability == 0) return;
  const int32_t below = DropoutThreshold(dropout.probability);
  const T scale = static_cast<T>(1 / (1 - dropout.probability));
  ForRowRanges(x.dim(0), x.dim(1), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      simd::DropEntries<T>(RandomBits(dropout, r), below, scale, x.row(r), x.dim(1));
  });
}

template <typename T>
void DrawBranchFactors(const Dropout& dropout, View<T> factors) {
  RequireProbability(dropout);
  for (int64_t b = 0; b < factors.dim(0); ++b) {
    const double uniform = static_cast<double>(RandomBits(dropout, b) >> 11) * 0x1p-53;
    *factors.at(b) = uniform < dropout.probability ? T(0) : static_cast<T>(1 / (1 - dropout.probability));
  }
}

template void ApplyDropout(const Dropout&, View<float>);
template void ApplyDropout(const Dropout&, View<double>);
template void DrawBranchFactors(const Dropout&, View<float>);
template void DrawBranchFactors(const Dropout&, View<double>);

}  // namespace qkv::nn
