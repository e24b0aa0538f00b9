#include "qkv/nn/training/branch.h"

#include "qkv/nn/ranges.h"
#include "qkv/simd/rows/elementwise_backward.h"

namespace qkv::nn {
namespace {

template <typename T>
void RequireScales(View<const T> x, View<const T> scale, View<const T> factors) {
  Require((scale.empty() || scale.size() == x.dim(2)) && (factors.empty() || factors.size() == x.dim(0)),
          "branch: {} scales and {} factors for rows {}", scale.size(), factors.size(), x.shape());
}
template <typename T>
void RequireSameShape(View<const T> x, View<const T> y) {
  Require(x.shape() == y.shape(), "branch: rows {} and {} do not fit", x.shape(), y.shape());
}

// to[i] = rest[i] + factor · scale[i] · from[i] for each row; rest may be empty.
template <typename T>
void ScaleRows(View<const T> from, View<const T> scale, View<const T> factors, View<const T> rest, View<T> to) {
  RequireScales<T>(from, scale, factors);
  RequireSameShape<T>(from, to);
  const int64_t N = from.dim(1), D = from.dim(2);
  ForRowRanges(from.dim(0) * N, D, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t b = row / N, n = row % N;
      const T factor = factors.empty() ? T(1) : *factors.at(b);
      const T *x = from.at(b, n), *add = rest.empty() ? nullptr : rest.at(b, n);
      T* y = to.at(b, n);
      for (int64_t i = 0; i < D; ++i) {
        const T scaled = factor * (scale.empty() ? x[i] : scale.data()[i] * x[i]);
        y[i] = add ? add[i] + scaled : scaled;
      }
    }
  });
}

}  // namespace

template <typename T>
void BranchForward(View<const T> output, View<const T> scale, View<const T> factors, View<const T> x, View<T> y) {
  RequireSameShape<T>(output, x);
  ScaleRows<T>(output, scale, factors, x, y);
}

template <typename T>
void BranchBackward(View<const T> output, View<const T> scale, View<const T> factors, View<const T> dy, View<T> doutput,
                    View<T> dscale) {
  RequireScales<T>(dy, dscale, factors);
  // Runs before doutput is written, which may be output.
  if (!dscale.empty()) {
    RequireSameShape<T>(output, dy);
    ForColumnRanges(dy.dim(2), dy.dim(0) * dy.dim(1), [&](int64_t begin, int64_t end) {
      for (int64_t b = 0; b < dy.dim(0); ++b) {
        simd::AddRowProducts<T>(output.at(b, 0, begin), output.stride(1), dy.at(b, 0, begin), dy.stride(1), dy.dim(1),
                                end - begin, factors.empty() ? T(1) : *factors.at(b), dscale.at(begin));
      }
    });
  }
  ScaleRows<T>(dy, scale, factors, {}, doutput);
}

#define QKV_INSTANTIATE(T)                                                                          \
  template void BranchForward(View<const T>, View<const T>, View<const T>, View<const T>, View<T>); \
  template void BranchBackward(View<const T>, View<const T>, View<const T>, View<const T>, View<T>, View<T>);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::nn
