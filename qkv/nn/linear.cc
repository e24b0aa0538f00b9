#include "qkv/nn/linear.h"

namespace qkv::nn {

template <typename T>
void LinearForward(View<const T> x, const Linear<T>& layer, View<T> y, const LinearOutput<T>& output) {
  simd::Epilogue<T> epilogue;
  epilogue.bias = layer.bias.data();
  epilogue.activation = output.activation;
  if (output.scale) epilogue.scale = output.scale->data();
  if (!output.residual.empty()) {
    Require(output.residual.shape() == y.shape(), "linear: the residual is {}, the output {}",
            ToString(output.residual.shape()), ToString(y.shape()));
    epilogue.residual = output.residual.data();
    epilogue.residual_stride = output.residual.stride(0);
  }
  simd::Gemm<T>(x, layer.weight, epilogue, y);
}

template void LinearForward(View<const float>, const Linear<float>&, View<float>, const LinearOutput<float>&);
template void LinearForward(View<const double>, const Linear<double>&, View<double>, const LinearOutput<double>&);

}  // namespace qkv::nn
