#include "qkv/nn/block.h"

#include <algorithm>

namespace qkv::nn {
namespace {

// x = norm x, where the norm follows the layer. x: [B, rows, D]
template <typename T>
void NormAfter(View<T> x, NormPlace place, const Norm<T>& norm) {
  if (place != NormPlace::kAfter) return;
  ForEachMatrix([&](View<T> rows) { NormForward<T>(rows, norm, rows); }, x);
}

// What a layer reads: norm x, or x where the norm follows the layer.
template <typename T>
Input<T> LayerInput(View<const T> x, NormPlace place, const Norm<T>& norm, Arena& arena) {
  return place == NormPlace::kBefore ? Normalised<T>(x, norm, arena) : Input<T>(x);
}

// x = x + layer(norm x), or norm(x + layer(x)). layer(input) adds its output to x. x: [B, rows, D]
template <typename T, typename Layer>
void AddBranch(View<T> x, NormPlace place, const Norm<T>& norm, Arena& arena, Layer layer) {
  layer(LayerInput<T>(x, place, norm, arena));
  NormAfter(x, place, norm);
}

}  // namespace

template <typename T>
void BlockForward(View<T> x, const Block<T>& block, int64_t rows, Arena& arena, const AttentionContext<T>& context) {
  const Arena::Scope scope(arena);
  const auto scale = [](const Tensor<T>& tensor) { return tensor.empty() ? nullptr : &tensor; };
  const Input<T> tokens = LayerInput<T>(x, block.norm_place, block.norm1, arena);
  const int64_t begin = context.last_rows ? x.dim(1) - rows : 0;
  const View<T> read = x.slice(1, begin, begin + rows);  // [B, rows, D]
  AttentionForward<T>(tokens.slice(1, begin, begin + rows), tokens, block.attention, scale(block.scale1), read, read,
                      arena, context);
  NormAfter(read, block.norm_place, block.norm1);
  if (!block.cross.query.empty()) {
    Require(!context.source.empty(), "block: cross-attention without a source");
    AttentionContext<T> of_source;
    of_source.requests = context.source_requests;
    // Sequences of one token that share a source are its queries.
    const int64_t B = read.dim(0), sources = context.source.lengths.size();
    Require(B == sources || (B % sources == 0 && rows == 1 && x.dim(1) == 1),
            "block: {} sequences of {} tokens do not share {} sources equally", B, x.dim(1), sources);
    const View<T> queries = B == sources ? read : x.reshape({sources, B / sources, x.dim(2)});
    of_source.cross_weights = context.cross_weights, of_source.block = context.block;
    if (!context.positions.empty()) {
      of_source.positions = B == sources ? context.positions.slice(1, begin, begin + rows)
                                         : context.positions.reshape({sources, B / sources});
    }
    AddBranch(queries, block.norm_place, block.norm_cross, arena, [&](const Input<T>& input) {
      CrossAttentionForward<T>(input, context.source, block.cross, scale(block.scale_cross), queries, queries, arena,
                               of_source);
    });
  }
  AddBranch(read, block.norm_place, block.norm2, arena,
            [&](const Input<T>& input) { MlpForward<T>(input, block.mlp, scale(block.scale2), read, read, arena); });
}

template <typename T>
void BlockWeights(View<const T> x, const Block<T>& block, Arena& arena, const AttentionContext<T>& context) {
  const Arena::Scope scope(arena);
  int64_t rows = 0;
  for (const WeightsRequest<T>& request : context.requests) rows = std::max(rows, request.row_end);
  Require(rows <= x.dim(1), "attention: no row {} among {} queries", rows - 1, x.dim(1));
  const Input<T> tokens = LayerInput<T>(x, block.norm_place, block.norm1, arena);
  AttentionForward<T>(tokens.slice(1, 0, rows), tokens, block.attention, nullptr, {}, {}, arena, context);
}

template void BlockWeights(View<const float>, const Block<float>&, Arena&, const AttentionContext<float>&);
template void BlockWeights(View<const double>, const Block<double>&, Arena&, const AttentionContext<double>&);
template void BlockForward(View<float>, const Block<float>&, int64_t, Arena&, const AttentionContext<float>&);
template void BlockForward(View<double>, const Block<double>&, int64_t, Arena&, const AttentionContext<double>&);

}  // namespace qkv::nn
