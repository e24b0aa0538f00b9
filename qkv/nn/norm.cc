#include "qkv/nn/norm.h"

#include <algorithm>

#include "qkv/core/parallel.h"
#include "qkv/simd/elementwise.h"

namespace qkv::nn {
namespace {

// Elements a task: enough work (some 10 µs) to pay for handing it to another thread.
constexpr int64_t kElementsPerTask = 1 << 15;

}  // namespace

template <typename T>
void NormForward(View<const T> x, const Norm<T>& norm, View<T> y) {
  const int64_t rows = x.dim(0), D = x.dim(1);
  Require(norm.gamma.size() == D, "layernorm: gamma has {} entries, x has {} features", norm.gamma.size(), D);
  Require(y.shape() == x.shape(), "layernorm: x is {}, y is {}", ToString(x.shape()), ToString(y.shape()));
  ParallelFor(rows, std::max<int64_t>(1, kElementsPerTask / D), [&](int64_t begin, int64_t end) {
    simd::LayerNorm<T>(x.row(begin), x.stride(0), end - begin, D, norm.gamma.data(), norm.beta.data(), norm.eps,
                       y.row(begin), y.stride(0));
  });
}

template void NormForward(View<const float>, const Norm<float>&, View<float>);
template void NormForward(View<const double>, const Norm<double>&, View<double>);

}  // namespace qkv::nn
