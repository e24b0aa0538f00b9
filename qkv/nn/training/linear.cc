#include "qkv/nn/training/linear.h"

#include "qkv/nn/ranges.h"
#include "qkv/simd/gemm/matmul.h"
#include "qkv/simd/rows/elementwise_backward.h"

namespace qkv::nn {
namespace {

template <typename T>
void RequireBias(View<T> bias, int64_t outputs) {
  Require(bias.empty() || bias.size() == outputs, "linear: a bias of {} entries for {} outputs", bias.size(), outputs);
}

}  // namespace

template <typename T>
void LinearForward(View<const T> x, const LinearParameters<const T>& p, View<T> y, View<const T> residual,
                   simd::Precision precision) {
  RequireBias(p.bias, p.weight.dim(0));
  simd::Epilogue<T> epilogue;
  epilogue.bias = p.bias.data();
  if (!residual.empty()) {
    Require(residual.shape() == y.shape(), "linear: the residual is {}, the output {}", residual.shape(), y.shape());
    epilogue.residual = residual.data();
    epilogue.residual_stride = residual.stride(0);
  }
  simd::MatMul<T>(x, simd::Transposed(p.weight), epilogue, y, precision);
}

template <typename T>
void LinearBackward(View<const T> x, const LinearParameters<const T>& p, View<const T> dy, View<T> dx, bool add,
                    const LinearParameters<T>& d, simd::Precision precision) {
  if (!d.weight.empty()) simd::MatMul<T>(simd::Transposed(dy), x, d.weight, true, precision);
  if (!d.bias.empty()) {
    RequireBias(d.bias, dy.dim(1));
    ForColumnRanges(dy.dim(1), dy.dim(0), [&](int64_t begin, int64_t end) {
      simd::AddRows<T>(dy.at(0, begin), dy.stride(0), dy.dim(0), end - begin, d.bias.at(begin));
    });
  }
  if (!dx.empty()) simd::MatMul<T>(dy, p.weight, dx, add, precision);
}

#define QKV_INSTANTIATE(T)                                                                                    \
  template void LinearForward(View<const T>, const LinearParameters<const T>&, View<T>, View<const T>,        \
                              simd::Precision);                                                               \
  template void LinearBackward(View<const T>, const LinearParameters<const T>&, View<const T>, View<T>, bool, \
                               const LinearParameters<T>&, simd::Precision);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::nn
