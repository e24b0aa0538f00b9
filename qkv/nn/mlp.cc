#include "qkv/nn/mlp.h"

namespace qkv::nn {
namespace {

// MlpForward of rows that go through both layers at once.
template <typename T>
void MlpOfRows(const Input<T>& x, const Mlp<T>& mlp, const Tensor<T>* scale, View<const T> residual, View<T> out,
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

}  // namespace

template <typename T>
void MlpForward(const Input<T>& x, const Mlp<T>& mlp, const Tensor<T>* scale, View<const T> residual, View<T> out,
                Arena& arena, const Tap<T>& tap) {
  const int64_t B = x.dim(0), N = x.dim(1), rows = RowsTogether<T>(N, mlp.fc1.weight.outputs());
  if (rows >= N || tap.Wants("hidden")) return MlpOfRows(x, mlp, scale, residual, out, arena, tap);
  for (int64_t b = 0; b < B; ++b) {
    const auto part = [b](const auto& view, int64_t begin, int64_t end) {
      return view.slice(0, b, b + 1).slice(1, begin, end);
    };
    for (int64_t begin = 0; begin < N; begin += rows) {
      const int64_t end = std::min(N, begin + rows);
      MlpOfRows(part(x, begin, end), mlp, scale, residual.empty() ? residual : part(residual, begin, end),
                part(out, begin, end), arena, tap);
    }
  }
}

template void MlpForward(const Input<float>&, const Mlp<float>&, const Tensor<float>*, View<const float>, View<float>,
                         Arena&, const Tap<float>&);
template void MlpForward(const Input<double>&, const Mlp<double>&, const Tensor<double>*, View<const double>,
                         View<double>, Arena&, const Tap<double>&);

}  // namespace qkv::nn
