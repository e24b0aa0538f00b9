#include "qkv/nn/block.h"

#include <algorithm>

namespace qkv::nn {

template <typename T>
void BlockForward(View<T> x, const Block<T>& block, int64_t rows, Arena& arena, const AttentionContext<T>& context) {
  const Arena::Scope scope(arena);
  const auto scale = [](const Tensor<T>& tensor) { return tensor.empty() ? nullptr : &tensor; };
  const Input<T> tokens = Normalised<T>(x, block.norm1, arena);
  const int64_t begin = context.last_rows ? x.dim(1) - rows : 0;
  const View<T> read = x.slice(1, begin, begin + rows);  // [B, rows, D]
  AttentionForward<T>(tokens.slice(1, begin, begin + rows), tokens, block.attention, scale(block.scale1), read, read,
                      arena, context);
  MlpForward<T>(Normalised<T>(read, block.norm2, arena), block.mlp, scale(block.scale2), read, read, arena);
}

template <typename T>
void BlockWeights(View<const T> x, const Block<T>& block, Arena& arena, const AttentionContext<T>& context) {
  const Arena::Scope scope(arena);
  int64_t rows = 0;
  for (const WeightsRequest<T>& request : context.requests) rows = std::max(rows, request.row_end);
  Require(rows <= x.dim(1), "attention: no row {} among {} queries", rows - 1, x.dim(1));
  const Input<T> tokens = Normalised<T>(x, block.norm1, arena);
  AttentionForward<T>(tokens.slice(1, 0, rows), tokens, block.attention, nullptr, {}, {}, arena, context);
}

template void BlockWeights(View<const float>, const Block<float>&, Arena&, const AttentionContext<float>&);
template void BlockWeights(View<const double>, const Block<double>&, Arena&, const AttentionContext<double>&);
template void BlockForward(View<float>, const Block<float>&, int64_t, Arena&, const AttentionContext<float>&);
template void BlockForward(View<double>, const Block<double>&, int64_t, Arena&, const AttentionContext<double>&);

}  // namespace qkv::nn
