#include "qkv/nn/mlp.h"

namespace qkv::nn {

template <typename T>
void MlpForward(const Input<T>& x, const Mlp<T>& mlp, const Tensor<T>* scale, View<const T> residual, View<T> out,
                Arena& arena, const Tap<T>& tap) {
  const Arena::Scope scope(arena);
  const int64_t B = x.dim(0), N = x.dim(1), M = mlp.fc1.weight.outputs();
  const View<T> hidden = NewRows<T>(B, N, M, mlp.fc2.reads_chunks() && mlp.norm.empty() && !tap.Wants("hidden"), arena);
  ForEachMatrix(
      [&](const Input<T>& from, View<T> to) { LinearForward<T>(from, mlp.fc1, to, {.activation = mlp.activation}); }, x,
      hidden);
  tap("hidden", hidden);
  const Input<T> normed = mlp.norm.empty() ? Input<T>(hidden) : Normalised<T>(hidden, mlp.norm, arena);
  ForEachMatrix([&](const Input<T>& from, View<T> to,
                    View<const T> rest) { LinearForward<T>(from, mlp.fc2, to, {.scale = scale, .residual = rest}); },
                normed, out, residual);
}

template void MlpForward(const Input<float>&, const Mlp<float>&, const Tensor<float>*, View<const float>, View<float>,
                         Arena&, const Tap<float>&);
template void MlpForward(const Input<double>&, const Mlp<double>&, const Tensor<double>*, View<const double>,
                         View<double>, Arena&, const Tap<double>&);

}  // namespace qkv::nn
