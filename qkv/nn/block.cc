#include "qkv/nn/block.h"

#include <algorithm>

namespace qkv::nn {
namespace {

template <typename T>
void NormInPlace(View<T> x, const Norm<T>& norm) {
  ForEachMatrix([&](View<T> rows) { NormForward<T>(rows, norm, rows); }, x);
}

// The input of a layer: norm x, or x if the norm follows the layer.
template <typename T>
Input<T> LayerInput(View<const T> x, NormPlace place, const Norm<T>& norm, Arena& arena) {
  return NormsInputs(place) ? Normalised<T>(x, norm, arena) : Input<T>(x);
}

// x = x + layer, norm(x + layer), or x + norm(layer). layer(residual, out) writes residual + its output, and may read
// x. x: [B, rows, D]
template <typename T, typename Layer>
void AddOutput(View<T> x, NormPlace place, const Norm<T>& norm, Arena& arena, Layer layer) {
  if (place != NormPlace::kOutput) {
    layer(View<const T>(x), x);
    if (place == NormPlace::kAfter) NormInPlace(x, norm);
    return;
  }
  const View<T> out = arena.New<T>(x.shape());
  layer(View<const T>(), out);
  NormInPlace(out, norm);
  AddScaled<T>(out, nullptr, x, x);
}

// Attention and MLP read the same tokens: the sum of x and attention is beside x until the MLP has read x.
template <typename T, typename Attention, typename MlpLayer>
void AddParallel(View<T> x, const Norm<T>& norm, Arena& arena, Attention attention, MlpLayer mlp) {
  const View<T> sum = arena.New<T>(x.shape());
  attention(View<const T>(x), sum);
  mlp(LayerInput<T>(x, NormPlace::kParallel, norm, arena), View<const T>(sum), x);
}

}  // namespace

template <typename T>
void BlockForward(View<T> x, const Block<T>& block, int64_t rows, Arena& arena, const AttentionContext<T>& context) {
  const Arena::Scope scope(arena);
  const auto scale = [](const Tensor<T>& tensor) { return tensor.empty() ? nullptr : &tensor; };
  const Input<T> tokens = LayerInput<T>(x, block.norm_place, block.norm1, arena);
  const int64_t begin = context.last_rows ? x.dim(1) - rows : 0;
  const View<T> read = x.slice(1, begin, begin + rows);  // [B, rows, D]
  const auto attention = [&](View<const T> residual, View<T> out) {
    AttentionForward<T>(tokens.slice(1, begin, begin + rows), tokens, block.attention, scale(block.scale1), residual,
                        out, arena, context);
  };
  const auto mlp = [&](const Input<T>& input, View<const T> residual, View<T> out) {
    MlpForward<T>(input, block.mlp, scale(block.scale2), residual, out, arena);
  };
  if (block.norm_place == NormPlace::kParallel) return AddParallel(read, block.norm2, arena, attention, mlp);
  AddOutput(read, block.norm_place, block.norm1, arena, attention);
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
    const Input<T> input = LayerInput<T>(queries, block.norm_place, block.norm_cross, arena);
    AddOutput(queries, block.norm_place, block.norm_cross, arena, [&](View<const T> residual, View<T> out) {
      CrossAttentionForward<T>(input, context.source, block.cross, scale(block.scale_cross), residual, out, arena,
                               of_source);
    });
  }
  const Input<T> input = LayerInput<T>(read, block.norm_place, block.norm2, arena);
  AddOutput(read, block.norm_place, block.norm2, arena,
            [&](View<const T> residual, View<T> out) { mlp(input, residual, out); });
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
