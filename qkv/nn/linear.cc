#include "qkv/nn/linear.h"

namespace qkv::nn {

template <typename T>
void LinearForward(const Input<T>& x, const Linear<T>& layer, View<T> y, const LinearOutput<T>& output) {
  simd::Epilogue<T> epilogue;
  epilogue.bias = layer.bias.data();
  epilogue.activation = output.activation;
  if (output.scale) epilogue.scale = output.scale->data();
  if (!output.residual.empty()) {
    Require(output.residual.shape() == y.shape(), "linear: the residual is {}, the output {}", output.residual.shape(),
            y.shape());
    epilogue.residual = output.residual.data();
    epilogue.residual_stride = output.residual.stride(0);
  }
  simd::Gemm<T>(x.x, layer.weight, epilogue, y, {x.norm});
}

template void LinearForward(const Input<float>&, const Linear<float>&, View<float>, const LinearOutput<float>&);
template void LinearForward(const Input<double>&, const Linear<double>&, View<double>, const LinearOutput<double>&);

}  // namespace qkv::nn
