// Builds attention layers: reads the projections of each kind, folds norms, biases and scales, merges, and packs.
#include "qkv/model/blocks/attention.h"

#include <algorithm>
#include <initializer_list>

#include "qkv/model/checkpoint/separate.h"
#include "qkv/nn/difference.h"

namespace qkv::model {
namespace {

using nn::AttentionKind;

// The projections of an attention layer as one linear layer: rows of all heads' queries, then keys, then values.
// Projections that the kind lacks, or shares with another, have no rows.
template <typename T>
struct AttentionRows {
  Affine<T> layer;
  int64_t queries = 0, keys = 0, values = 0;

  int64_t values_begin() const { return values > 0 ? queries + keys : queries; }
};

// Stacks the rows; if only some of the layers have a bias, the others' is zero.
template <typename T>
AttentionRows<T> Stack(const Affine<T>& queries, const Affine<T>& keys, const Affine<T>& values, int64_t columns) {
  AttentionRows<T> stack{{}, queries.rows, keys.rows, values.rows};
  Affine<T>& layer = stack.layer;
  layer.rows = queries.rows + keys.rows + values.rows;
  layer.weight = Tensor<T>::Uninitialised({layer.rows, columns});
  if (!queries.bias.empty() || !keys.bias.empty() || !values.bias.empty()) layer.bias = Tensor<T>({layer.rows});
  int64_t row = 0;
  for (const Affine<T>* part : {&queries, &keys, &values}) {
    if (part->rows > 0) std::copy_n(part->weight.data(), part->weight.size(), layer.weight.data() + row * columns);
    if (!part->bias.empty()) std::copy_n(part->bias.data(), part->rows, layer.bias.data() + row);
    row += part->rows;
  }
  return stack;
}

// Mᵀ of each head, with bias u: the queries for keys that are the tokens themselves.
template <typename T>
Affine<T> MergedQueries(const Weights<T>& weights, const std::string& name) {
  const Tensor<T> merged = weights.Get(name + "qk.merged");  // [H, D, S]
  const int64_t H = merged.dim(0), D = merged.dim(1), S = merged.dim(2);
  Affine<T> queries{Tensor<T>::Uninitialised({H * S, D}), weights.Get(name + "qk.key_term"), H * S};
  for (int64_t h = 0; h < H; ++h) {
    for (int64_t i = 0; i < D; ++i) {
      for (int64_t j = 0; j < S; ++j) queries.weight[(h * S + j) * D + i] = merged[(h * D + i) * S + j];
    }
  }
  return queries;
}

template <typename T>
AttentionRows<T> ReadRows(const nn::BlockConfig& c, const Weights<T>& weights, const std::string& name) {
  const nn::AttentionConfig& a = c.attention;
  if (nn::StacksProjections(a.kind)) {
    return {weights.Layer(name + "qkv"), a.joined_width(), a.values_width(), a.values_width()};
  }
  const Affine<T> values = weights.Layer(name + "v");
  switch (c.attention.kind) {
    case AttentionKind::kShared:
    case AttentionKind::kUnified:
    case AttentionKind::kSymmetric:
      return Stack<T>({}, weights.Layer(name + "qk"), values, c.width);
    case AttentionKind::kMerged:
      return Stack<T>(MergedQueries(weights, name), {}, values, c.width);
    default:  // positional kinds have neither queries nor keys
      return Stack<T>(weights.Layer(name + "qk.query"), weights.Layer(name + "qk.key"), values, c.width);
  }
}

// Replaces queries and keys by Mᵀ = W_Kᵀ W_Q of each head, with the bias W_Kᵀ b_Q. Multiplied in double, and rounded
// once. The keys' bias is dropped: it adds the same to all scores of a query.
template <typename T>
void MergeQueriesAndKeys(int64_t heads, AttentionRows<T>* rows) {
  const int64_t D = rows->layer.columns(), r = rows->queries / heads;
  const auto widened = [](const T* from, int64_t n) {
    auto to = Tensor<double>::Uninitialised({n});
    std::copy_n(from, n, to.data());
    return to;
  };
  Affine<T> queries{Tensor<T>::Uninitialised({heads * D, D}), {}, heads * D};
  const bool biased = !rows->layer.bias.empty();
  if (biased) queries.bias = Tensor<T>({heads * D});
  Tensor<double> merged({D, D}), term({D, 1});
  for (int64_t h = 0; h < heads; ++h) {
    const Tensor<double> query = widened(rows->layer.weight.data() + h * r * D, r * D);
    const Tensor<double> key = widened(rows->layer.weight.data() + (rows->queries + h * r) * D, r * D);
    const View<const double> transposed_key(key.data(), {D, r}, {1, D});
    simd::MatMul<double>(transposed_key, query.view().reshape({r, D}), merged);
    std::copy_n(merged.data(), D * D, queries.weight.data() + h * D * D);
    if (!biased) continue;
    const Tensor<double> bias = widened(rows->layer.bias.data() + h * r, r);
    simd::MatMul<double>(transposed_key, bias.view().reshape({r, 1}), term);
    std::copy_n(term.data(), D, queries.bias.data() + h * D);
  }
  const simd::Packing packing = rows->layer.packing;
  *rows = Stack<T>(queries, {}, rows->layer.Rows(rows->values_begin(), rows->layer.rows), D);
  rows->layer.packing = packing;
}

// Folds gamma and beta of the norm into the rows. If the keys are the tokens themselves, they are only normalised, so
// gamma multiplies the queries a second time; beta adds the same to all scores of a query, which the softmax cancels.
template <typename T>
void FoldNorm(AttentionKind kind, AttentionRows<T>* rows, nn::Norm<T>* norm) {
  const Tensor<T> gamma = std::move(norm->gamma);
  norm->gamma = gamma.Clone();
  rows->layer.FoldNorm(norm);
  if (kind == AttentionKind::kMerged) rows->layer.ScaleRows(0, rows->queries, gamma);
}

// Sets biases that cannot change the output to zero, and moves those that add the same to every output to the
// projection's bias. Query biases stay.
template <typename T>
void FoldBiases(const AttentionBuild& build, const nn::AttentionLayer<T>& layer, AttentionRows<T>* rows,
                Affine<T>* projection) {
  Tensor<T>& bias = rows->layer.bias;
  // A sink's score gets no bias, and its weight has no value: neither of the following holds then.
  if (layer.sinks.size() > 0) return;
  // q · (k + b) differs from q · k by the same for all keys, and the softmax cancels it. Exceptions: the key is rotated
  // or normalised with its bias, or serves as query too. Only this line decides it.
  const bool keys_cancel = !QueriesAreKeys(build.kind) && layer.key_norm.empty() && !build.rotary;
  // The weights of a row sum to 1, so a bias of values is added to the output before the projection.
  const bool folded = (!ValuesAreKeys(build.kind) || keys_cancel) && layer.head_norm.empty() &&
                      layer.output_norm.empty() && !projection->weight.empty();
  if (folded) {
    T* const values = bias.data() + rows->values_begin();
    auto of_heads = Tensor<T>::Uninitialised({layer.heads, layer.head_width});
    RepeatForHeads<T>(View<const T>(values, {layer.kv_heads(), layer.head_width}), of_heads);
    projection->AddToBias(of_heads);
    std::fill_n(values, layer.kv_heads() * layer.head_width, T(0));
  }
  if (keys_cancel && !ValuesAreKeys(build.kind)) std::fill_n(bias.data() + rows->queries, rows->keys, T(0));
}

// The keys' rows packed a second time as queries.
template <typename T>
nn::Linear<T> PackKeysAsQueries(const AttentionRows<T>& rows, View<const T> eigenvalues) {
  Affine<T> queries = rows.layer.Rows(rows.queries, rows.queries + rows.keys);
  if (!eigenvalues.empty()) queries.ScaleRows(0, rows.keys, eigenvalues);
  return queries.Pack();
}

// The tables of queries and keys, [H, N, r] each, as one, [2, H, N, r]; or empty.
template <typename T>
Tensor<T> ReadPlaces(const nn::BlockConfig& c, int64_t tokens, const Weights<T>& weights, const std::string& name) {
  if (c.attention.kind != AttentionKind::kPositional) return {};
  auto places = Tensor<T>::Uninitialised({2, c.attention.heads, tokens, c.attention.query_width()});
  T* to = places.data();
  for (const char* table : {"qk.query", "qk.key"}) {
    const Tensor<T> from = weights.Get(name + table);
    to = std::copy_n(from.data(), from.size(), to);
  }
  return places;
}

// λ of two maps, and the norm of their difference.
template <typename T>
void ReadDifference(const Weights<T>& weights, const std::string& name, int64_t block, nn::AttentionLayer<T>* layer) {
  const Tensor<T> q1 = weights.Get(name + "lambda_q1"), k1 = weights.Get(name + "lambda_k1"),
                  q2 = weights.Get(name + "lambda_q2"), k2 = weights.Get(name + "lambda_k2");
  if (q1.empty()) return;
  layer->lambda = Tensor<T>({1});
  layer->lambda[0] = static_cast<T>(nn::Lambda<T>({{q1, q2}, {k1, k2}}, block));
  layer->head_norm = weights.Norm(name + "sub_norm", nn::kHeadNorm);
  for (T& gamma : layer->head_norm.gamma.span()) gamma *= static_cast<T>(1 - nn::LambdaInit(block));
}

// A layer without its products.
template <typename T>
nn::AttentionLayer<T> NewLayer(const nn::AttentionConfig& c, const nn::NormConfig& norm, const BuildOptions& options,
                               const Weights<T>& weights, const std::string& name, AttentionKind kind, int64_t block) {
  nn::AttentionLayer<T> layer;
  layer.bf16 = options.precision != simd::Precision::kFloat32;
  layer.kind = kind;
  layer.heads = c.heads, layer.head_width = c.head_width, layer.key_heads = c.key_heads;
  layer.qk_width = kind == AttentionKind::kMerged ? 0 : c.qk_width;
  layer.window_left = c.window_left, layer.window_right = c.window_right;
  layer.sinks = weights.Get(name + "sinks");
  layer.query_norm = weights.Norm(name + "q_norm", norm);
  layer.key_norm = weights.Norm(name + "k_norm", norm);
  layer.output_norm = weights.Norm(name + "norm", norm);
  ReadDifference(weights, name, block, &layer);
  return layer;
}

// Queries come from x, keys and values from the source. `norm` applies to x only.
template <typename T>
nn::AttentionLayer<T> BuildCrossAttention(const nn::BlockConfig& block, const BuildOptions& options,
                                          const Weights<T>& weights, const std::string& name, int64_t index,
                                          nn::Norm<T>* norm, Tensor<T>* scale) {
  const nn::AttentionConfig& c = *block.cross;
  nn::AttentionLayer<T> layer = NewLayer(c, block.norm, options, weights, name, c.kind, index);
  Affine<T> queries, projection = weights.Layer(name + "proj", options.precision);
  AttentionRows<T> source;
  const int64_t S = c.source(block.width);
  if (nn::StacksProjections(c.kind)) {
    queries = weights.Layer(name + "q");
    source = {weights.Layer(name + "kv"), 0, c.values_width(), c.values_width()};
  } else {
    const bool shared = QueriesAreKeys(c.kind);
    const Affine<T> keys = weights.Layer(name + (shared ? "qk" : "qk.key"));
    queries = shared                             ? keys.Rows(0, keys.rows)
              : c.kind == AttentionKind::kMerged ? MergedQueries(weights, name)
                                                 : weights.Layer(name + "qk.query");
    if (c.kind == AttentionKind::kSymmetric) {
      queries.ScaleRows(0, queries.rows, weights.Get(name + "qk.eigenvalues"));
    }
    source = Stack<T>({}, keys, weights.Layer(name + "v"), S);
  }
  queries.packing = source.layer.packing = weights.In(options.precision);
  if (options.fold_norms && nn::NormsInputs(block.norm_place)) queries.FoldNorm(norm);
  // Biases of values stay: an entry of a batch may have no tokens of the source, whose weights do not sum to 1.
  layer.query = queries.Pack();
  const bool in_one = source.keys > 0 && source.keys == source.values;
  if (source.keys > 0) layer.query_key_value = source.layer.PackRows(0, in_one ? source.layer.rows : source.keys);
  if (source.values > 0 && !in_one) layer.value = source.layer.PackRows(source.keys, source.layer.rows);
  if (options.fold_scales && !scale->empty() && !projection.weight.empty()) projection.FoldScale(scale);
  layer.projection = projection.Pack();
  return layer;
}

}  // namespace

template <typename T>
nn::AttentionLayer<T> BuildAttention(const nn::BlockConfig& c, int64_t tokens, const BuildOptions& options,
                                     const Weights<T>& weights, const std::string& name, const AttentionBuild& build,
                                     nn::Norm<T>* norm, Tensor<T>* scale) {
  nn::AttentionLayer<T> layer = NewLayer(c.attention, c.norm, options, weights, name, build.kind, build.block);
  layer.eigenvalues = weights.Get(name + "qk.eigenvalues");
  layer.bandwidth = weights.Get(name + "qk.bandwidth");
  layer.places = ReadPlaces(c, tokens, weights, name);
  for (const T bandwidth : layer.bandwidth.span()) {
    Require(bandwidth >= static_cast<T>(nn::kLeastBandwidth),
            "checkpoint: {}qk.bandwidth holds {}, expected {} patches at least", name, bandwidth, nn::kLeastBandwidth);
  }
  AttentionRows<T> rows = ReadRows(c, weights, name);
  Affine<T>& all = rows.layer;
  all.packing = weights.In(options.precision);
  Affine<T> projection = weights.Layer(name + "proj", options.precision);

  if (options.fold_norms && nn::NormsInputs(c.norm_place)) FoldNorm(c.attention.kind, &rows, norm);
  if (build.kind != c.attention.kind) MergeQueriesAndKeys(c.attention.heads, &rows);
  const bool together = nn::HasQueriesAndKeys(build.kind) && !build.fewer_queries;
  if (rows.queries > 0 && !together) layer.query = all.PackRows(0, rows.queries);
  if (build.absorbs && QueriesAreKeys(build.kind)) layer.query = PackKeysAsQueries<T>(rows, layer.eigenvalues);
  if (options.fold_key_value_bias && !all.bias.empty()) FoldBiases(build, layer, &rows, &projection);

  const int64_t keys_end = rows.queries + rows.keys;
  const bool in_one = rows.keys > 0 && rows.keys == rows.values;
  if (rows.keys > 0) {
    layer.query_key_value = all.PackRows(together ? 0 : rows.queries, in_one ? all.rows : keys_end);
  }
  if (rows.values > 0 && !in_one) layer.value = all.PackRows(keys_end, all.rows);
  if (build.absorbs) {
    if (rows.keys > 0) {
      layer.absorbed.key = all.PackTransposedHeads(rows.queries, c.attention.query_width(), c.attention.heads);
    }
    layer.absorbed.value = all.PackHeads(rows.values_begin(), c.attention.head_width, c.attention.heads);
  }
  if (options.fold_scales && !scale->empty() && !projection.weight.empty()) projection.FoldScale(scale);
  layer.projection = projection.Pack();
  return layer;
}

template <typename T>
nn::Block<T> BuildBlock(const nn::BlockConfig& c, int64_t tokens, const BuildOptions& options,
                        const Weights<T>& weights, const std::string& name, const AttentionBuild& build) {
  nn::Block<T> block;
  block.norm_place = c.norm_place;
  block.norm1 = weights.Norm(name + "norm1", c.norm);
  block.scale1 = weights.Get(name + "ls1.gamma");
  block.attention = BuildAttention<T>(c, tokens, options, weights, name + "attn.", build, &block.norm1, &block.scale1);
  if (c.cross) {
    block.norm_cross = weights.Norm(name + "norm_cross", c.norm);
    block.scale_cross = weights.Get(name + "ls_cross.gamma");
    block.cross = BuildCrossAttention<T>(c, options, weights, name + "cross_attn.", build.block, &block.norm_cross,
                                         &block.scale_cross);
  }
  // A parallel MLP has the same input as attention: the same norm, folded into both.
  block.norm2 = weights.Norm(name + (c.norm_place == nn::NormPlace::kParallel ? "norm1" : "norm2"), c.norm);
  block.scale2 = weights.Get(name + "ls2.gamma");
  block.mlp.activation = c.mlp.activation;
  block.mlp.norm = weights.Norm(name + "mlp.norm", c.norm);
  {  // one after the other, so that memory holds a single one unpacked
    Affine<T> fc1 = weights.Layer(name + "mlp.fc1", options.precision);
    if (options.fold_norms && nn::NormsInputs(c.norm_place)) fc1.FoldNorm(&block.norm2);
    block.mlp.fc1 = fc1.Pack(c.mlp.gate);
  }
  Affine<T> fc2 = weights.Layer(name + "mlp.fc2", options.precision);
  if (options.fold_norms && !block.mlp.norm.empty()) fc2.FoldNorm(&block.mlp.norm);
  if (options.fold_scales && !block.scale2.empty()) fc2.FoldScale(&block.scale2);
  block.mlp.fc2 = fc2.Pack();
  return block;
}

template nn::Block<float> BuildBlock(const nn::BlockConfig&, int64_t, const BuildOptions&, const Weights<float>&,
                                     const std::string&, const AttentionBuild&);
template nn::Block<double> BuildBlock(const nn::BlockConfig&, int64_t, const BuildOptions&, const Weights<double>&,
                                      const std::string&, const AttentionBuild&);
template nn::AttentionLayer<float> BuildAttention(const nn::BlockConfig&, int64_t, const BuildOptions&,
                                                  const Weights<float>&, const std::string&, const AttentionBuild&,
                                                  nn::Norm<float>*, Tensor<float>*);
template nn::AttentionLayer<double> BuildAttention(const nn::BlockConfig&, int64_t, const BuildOptions&,
                                                   const Weights<double>&, const std::string&, const AttentionBuild&,
                                                   nn::Norm<double>*, Tensor<double>*);

}  // namespace qkv::model
