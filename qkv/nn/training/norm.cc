#include "qkv/nn/training/norm.h"

#include "qkv/nn/ranges.h"
#include "qkv/simd/rows/elementwise_backward.h"

namespace qkv::nn {
namespace {

template <typename T, typename P>
void RequireRows(View<const T> x, View<const T> moments, const NormParameters<P>& p) {
  const int64_t D = x.dim(1);
  Require((p.gamma.empty() || p.gamma.size() == D) && (p.beta.empty() || p.beta.size() == D),
          "norm: gamma has {} entries, beta {}, x has {} features", p.gamma.size(), p.beta.size(), D);
  Require(moments.shape() == Shape({x.dim(0), 2}) && moments.dense(), "norm: the moments are {}, the rows {}",
          moments.shape(), x.shape());
}
template <typename T>
void RequireSameShape(View<const T> x, View<const T> y) {
  Require(y.shape() == x.shape(), "norm: x is {}, y is {}", x.shape(), y.shape());
}

}  // namespace

template <typename T>
void NormForward(View<const T> x, const NormParameters<const T>& p, View<T> y, View<T> moments) {
  const int64_t D = x.dim(1);
  RequireRows<T>(x, moments, p);
  RequireSameShape<T>(x, y);
  const simd::NormRule<T> rule(static_cast<T>(p.eps), p.kind);
  ForRowRanges(x.dim(0), D, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {  // row by row, so that the row is still in L1
      simd::RowMoments<T>(x.row(r), x.stride(0), 1, D, rule, moments.row(r));
      simd::Normalise<T>(x.row(r), x.stride(0), 1, D, moments.row(r), p.gamma.data(), p.beta.data(), y.row(r),
                         y.stride(0));
    }
  });
}

template <typename T>
void Renormalise(View<const T> x, View<const T> moments, const NormParameters<const T>& p, View<T> y) {
  RequireRows<T>(x, moments, p);
  RequireSameShape<T>(x, y);
  ForRowRanges(x.dim(0), x.dim(1), [&](int64_t begin, int64_t end) {
    simd::Normalise<T>(x.row(begin), x.stride(0), end - begin, x.dim(1), moments.row(begin), p.gamma.data(),
                       p.beta.data(), y.row(begin), y.stride(0));
  });
}

template <typename T>
void NormBackward(View<const T> x, View<const T> moments, const NormParameters<const T>& p, View<const T> dy,
                  View<T> dx, bool add, const NormParameters<T>& d) {
  const int64_t rows = x.dim(0), D = x.dim(1);
  RequireRows<T>(x, moments, p);
  RequireRows<T>(x, moments, d);
  RequireSameShape<T>(x, dy);
  const auto from = [&](int64_t row, int64_t column, int64_t count) {
    return simd::NormedRows<T>{.x = x.at(row, column),
                               .x_stride = x.stride(0),
                               .moments = moments.row(row),
                               .dy = dy.at(row, column),
                               .dy_stride = dy.stride(0),
                               .rows = count,
                               .kind = p.kind};
  };
  // Runs before dx is written, which may be dy.
  if (!d.empty()) {
    ForColumnRanges(D, rows, [&](int64_t begin, int64_t end) {
      simd::AddNormParameterGradients<T>(from(0, begin, rows), end - begin,
                                         d.gamma.empty() ? nullptr : d.gamma.at(begin),
                                         d.beta.empty() ? nullptr : d.beta.at(begin));
    });
  }
  if (dx.empty()) return;
  RequireSameShape<T>(x, dx);
  ForRowRanges(rows, D, [&](int64_t begin, int64_t end) {
    simd::NormGradient<T>(from(begin, 0, end - begin), D, p.gamma.data(), dx.row(begin), dx.stride(0), add);
  });
}

template void NormForward(View<const float>, const NormParameters<const float>&, View<float>, View<float>);
template void NormForward(View<const double>, const NormParameters<const double>&, View<double>, View<double>);
template void Renormalise(View<const float>, View<const float>, const NormParameters<const float>&, View<float>);
template void Renormalise(View<const double>, View<const double>, const NormParameters<const double>&, View<double>);
template void NormBackward(View<const float>, View<const float>, const NormParameters<const float>&, View<const float>,
                           View<float>, bool, const NormParameters<float>&);
template void NormBackward(View<const double>, View<const double>, const NormParameters<const double>&,
                           View<const double>, View<double>, bool, const NormParameters<double>&);

}  // namespace qkv::nn
