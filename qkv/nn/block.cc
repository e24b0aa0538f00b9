#include "qkv/nn/block.h"

#include <algorithm>

namespace qkv::nn {
namespace {

template <typename T>
void NormInPlace(View<T> x, const Norm<T>& norm) {
  ForEachMatrix([&](View<T> rows) { NormForward<T>(rows, norm, rows); }, x);
}

// A layer with its norm, and what a probe calls them.
template <typename T>
struct Branch {
  NormPlace place;
  const Norm<T>& norm;
  Tap<T> tap;  // of the block
  std::string_view norm_name, layer_name;
};

// The input of a layer: norm x, or x if the norm follows the layer.
template <typename T>
Input<T> LayerInput(View<const T> x, const Branch<T>& branch, Arena& arena) {
  if (!NormsInputs(branch.place)) return Input<T>(x);
  const Input<T> normed = Normalised<T>(x, branch.norm, arena);
  if (!branch.tap.Wants(branch.norm_name)) return normed;
  const View<T> own = arena.New<T>(x.shape());
  AddScaled<T>(Materialised(normed, arena), nullptr, {}, own);
  branch.tap(branch.norm_name, own);
  return own;
}

// out = x + layer. layer(residual, out) writes residual + its output, and may read x.
template <typename T, typename Layer>
void AddLayer(View<const T> x, const Branch<T>& branch, View<T> out, Arena& arena, Layer layer) {
  const Tap<T> tap = branch.tap.In(branch.layer_name);
  if (branch.place != NormPlace::kOutput && !tap.Wants("out")) return layer(x, out);
  const View<T> apart = arena.New<T>(x.shape());
  layer(View<const T>(), apart);
  if (branch.place == NormPlace::kOutput) NormInPlace(apart, branch.norm);
  tap("out", apart);
  AddScaled<T>(apart, nullptr, x, out);
}

// x = x + layer, norm(x + layer), or x + norm(layer). x: [B, rows, D]
template <typename T, typename Layer>
void AddOutput(View<T> x, const Branch<T>& branch, Arena& arena, Layer layer) {
  AddLayer<T>(x, branch, x, arena, layer);
  if (branch.place != NormPlace::kAfter) return;
  NormInPlace(x, branch.norm);
  branch.tap(branch.norm_name, x);
}

// Attention and MLP read the same tokens: the sum of x and attention is beside x until the MLP has read x.
template <typename T, typename Attention, typename MlpLayer>
void AddParallel(View<T> x, const Branch<T>& first, const Branch<T>& second, Arena& arena, Attention attention,
                 MlpLayer mlp) {
  const View<T> sum = arena.New<T>(x.shape());
  AddLayer<T>(x, first, sum, arena, attention);
  const Input<T> input = LayerInput<T>(x, second, arena);
  AddLayer<T>(sum, second, x, arena, [&](View<const T> residual, View<T> out) { mlp(input, residual, out); });
}

}  // namespace

template <typename T>
void BlockForward(View<T> x, const Block<T>& block, int64_t rows, Arena& arena, const AttentionContext<T>& context) {
  const Arena::Scope scope(arena);
  const auto scale = [](const Tensor<T>& tensor) { return tensor.empty() ? nullptr : &tensor; };
  const Tap<T> tap{context.probe, {.block = context.block}};
  Require(context.probe == nullptr || rows == x.dim(1), "block: a probe sees all {} tokens, not {}", x.dim(1), rows);
  const Branch<T> first{block.norm_place, block.norm1, tap, "norm1", "attn."};
  const Branch<T> last{block.norm_place, block.norm2, tap, "norm2", "mlp."};
  tap("resid_pre", x);
  const Input<T> tokens = LayerInput<T>(x, first, arena);
  const int64_t begin = context.last_rows ? x.dim(1) - rows : 0;
  const View<T> read = x.slice(1, begin, begin + rows);  // [B, rows, D]
  const auto attention = [&](View<const T> residual, View<T> out) {
    AttentionForward<T>(tokens.slice(1, begin, begin + rows), tokens, block.attention, scale(block.scale1), residual,
                        out, arena, context);
  };
  const auto mlp = [&](const Input<T>& input, View<const T> residual, View<T> out) {
    MlpForward<T>(input, block.mlp, scale(block.scale2), residual, out, arena, tap.In("mlp."));
  };
  if (block.norm_place == NormPlace::kParallel) {
    AddParallel<T>(read, first, last, arena, attention, mlp);
    return tap("resid_post", read);
  }
  AddOutput<T>(read, first, arena, attention);
  tap("resid_mid", read);
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
    of_source.probe = context.probe;
    if (!context.positions.empty()) {
      of_source.positions = B == sources ? context.positions.slice(1, begin, begin + rows)
                                         : context.positions.reshape({sources, B / sources});
    }
    const Branch<T> cross{block.norm_place, block.norm_cross, tap, "norm_cross", "cross."};
    const Input<T> input = LayerInput<T>(queries, cross, arena);
    AddOutput<T>(queries, cross, arena, [&](View<const T> residual, View<T> out) {
      CrossAttentionForward<T>(input, context.source, block.cross, scale(block.scale_cross), residual, out, arena,
                               of_source);
    });
    tap("resid_cross", read);
  }
  const Input<T> input = LayerInput<T>(read, last, arena);
  AddOutput<T>(read, last, arena, [&](View<const T> residual, View<T> out) { mlp(input, residual, out); });
  tap("resid_post", read);
}

template <typename T>
void BlockWeights(View<const T> x, const Block<T>& block, Arena& arena, const AttentionContext<T>& context) {
  const Arena::Scope scope(arena);
  int64_t rows = 0;
  for (const WeightsRequest<T>& request : context.requests) rows = std::max(rows, request.row_end);
  Require(rows <= x.dim(1), "attention: no row {} among {} queries", rows - 1, x.dim(1));
  const Input<T> tokens = LayerInput<T>(x, {block.norm_place, block.norm1, {}, {}, {}}, arena);
  AttentionForward<T>(tokens.slice(1, 0, rows), tokens, block.attention, nullptr, {}, {}, arena, context);
}

template void BlockWeights(View<const float>, const Block<float>&, Arena&, const AttentionContext<float>&);
template void BlockWeights(View<const double>, const Block<double>&, Arena&, const AttentionContext<double>&);
template void BlockForward(View<float>, const Block<float>&, int64_t, Arena&, const AttentionContext<float>&);
template void BlockForward(View<double>, const Block<double>&, int64_t, Arena&, const AttentionContext<double>&);

}  // namespace qkv::nn
