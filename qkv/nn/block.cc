#include "qkv/nn/block.h"

#include "qkv/nn/rows.h"

namespace qkv::nn {

template <typename T>
void BlockForward(View<T> x, const Block<T>& block, int64_t rows, Arena& arena,
                  std::span<const WeightsRequest<T>> requests) {
  const Arena::Scope scope(arena);
  const int64_t B = x.dim(0), N = x.dim(1), D = x.dim(2);
  const View<T> normed = arena.New<T>({B, N, D});
  NormForward<T>(AsOneMatrix(x), block.norm1, AsOneMatrix(normed));
  const View<T> read = x.slice(1, 0, rows), normed_read = normed.slice(1, 0, rows);  // [B, rows, D]
  const auto scale = [](const Tensor<T>& tensor) { return tensor.empty() ? nullptr : &tensor; };
  AttentionForward<T>(normed_read, normed, block.attention, scale(block.scale1), read, read, arena, requests);
  ForEachMatrix<T>(read, normed_read, [&](auto from, auto to) { NormForward<T>(from, block.norm2, to); });
  MlpForward<T>(normed_read, block.mlp, scale(block.scale2), read, read, arena);
}

template void BlockForward(View<float>, const Block<float>&, int64_t, Arena&, std::span<const WeightsRequest<float>>);
template void BlockForward(View<double>, const Block<double>&, int64_t, Arena&,
                           std::span<const WeightsRequest<double>>);

}  // namespace qkv::nn
