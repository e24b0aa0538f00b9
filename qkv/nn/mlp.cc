#include "qkv/nn/mlp.h"

#include "qkv/core/parallel.h"
#include "qkv/nn/rows.h"

namespace qkv::nn {
namespace {

// Rows a task: a row has thousands of entries, a few of them pay for waking a thread.
constexpr int64_t kRowsPerTask = 8;

// gates: [rows, 2·M] to hidden: [rows, M]
template <typename T>
void ApplyGate(MlpKind kind, simd::Activation activation, View<const T> gates, View<T> hidden) {
  const int64_t M = hidden.dim(1);
  const int64_t gate_at = kind == MlpKind::kGateFirst ? 0 : M, value_at = M - gate_at;
  ParallelFor(hidden.dim(0), kRowsPerTask, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T *gate = gates.row(r) + gate_at, *value = gates.row(r) + value_at;
      T* to = hidden.row(r);
      simd::Activate<T>(activation, gate, to, M);
      for (int64_t m = 0; m < M; ++m) to[m] *= value[m];
    }
  });
}

}  // namespace

template <typename T>
void MlpForward(View<const T> x, const Mlp<T>& mlp, const Tensor<T>* scale, View<const T> residual, View<T> out,
                Arena& arena) {
  const Arena::Scope scope(arena);
  const int64_t B = x.dim(0), N = x.dim(1), M = mlp.fc2.weight.inputs();
  View<T> hidden;  // [B, N, M]
  if (mlp.kind == MlpKind::kPlain) {
    hidden = arena.New<T>({B, N, M});
    ForEachMatrix<T>(x, hidden,
                     [&](auto from, auto to) { LinearForward<T>(from, mlp.fc1, to, {.activation = mlp.activation}); });
  } else {
    const View<T> gates = arena.New<T>({B, N, 2 * M});
    hidden = arena.New<T>({B, N, M});
    ForEachMatrix<T>(x, gates, [&](auto from, auto to) { LinearForward<T>(from, mlp.fc1, to); });
    ApplyGate<T>(mlp.kind, mlp.activation, AsOneMatrix(gates), AsOneMatrix(hidden));
  }
  if (!mlp.norm.empty()) NormForward<T>(AsOneMatrix(hidden), mlp.norm, AsOneMatrix(hidden));
  ForEachMatrix<T>(hidden, out, residual, [&](auto from, auto to, auto rest) {
    LinearForward<T>(from, mlp.fc2, to, {.scale = scale, .residual = rest});
  });
}

template void MlpForward(View<const float>, const Mlp<float>&, const Tensor<float>*, View<const float>, View<float>,
                         Arena&);
template void MlpForward(View<const double>, const Mlp<double>&, const Tensor<double>*, View<const double>,
                         View<double>, Arena&);

}  // namespace qkv::nn
