#include "qkv/model/build/attention.h"

#include <algorithm>
#include <initializer_list>

namespace qkv::model {
namespace {

using nn::AttentionKind;

// What an attention layer makes of tokens, as one linear layer: the rows of all heads' queries, then of their keys,
// then of their values. What a kind has not got, or what is another's, has no rows.
template <typename T>
struct AttentionRows {
  Affine<T> layer;
  int64_t queries = 0, keys = 0, values = 0;

  int64_t values_begin() const { return values > 0 ? queries + keys : queries; }
};

// One below the other; where only some have a bias, the others' is zero.
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

// Mᵀ of each head, with u for a bias: the queries for which tokens themselves are keys.
template <typename T>
Affine<T> MergedQueries(const nn::BlockConfig& c, const Weights<T>& weights, const std::string& name) {
  const int64_t H = c.attention.heads, D = c.width;
  const Tensor<T> merged = weights.Get(name + "qk.merged");
  Affine<T> queries{Tensor<T>::Uninitialised({H * D, D}), weights.Get(name + "qk.key_term"), H * D};
  for (int64_t h = 0; h < H; ++h) {
    for (int64_t i = 0; i < D; ++i) {
      for (int64_t j = 0; j < D; ++j) queries.weight[(h * D + j) * D + i] = merged[(h * D + i) * D + j];
    }
  }
  return queries;
}

template <typename T>
AttentionRows<T> ReadRows(const nn::BlockConfig& c, const Weights<T>& weights, const std::string& name) {
  const int64_t joined = c.attention.joined_width();
  if (c.attention.kind == AttentionKind::kSeparate) return {weights.Layer(name + "qkv"), joined, joined, joined};
  const Affine<T> values = weights.Layer(name + "v");
  switch (c.attention.kind) {
    case AttentionKind::kShared:
    case AttentionKind::kUnified:
    case AttentionKind::kSymmetric:
      return Stack<T>({}, weights.Layer(name + "qk"), values, c.width);
    case AttentionKind::kMerged:
      return Stack<T>(MergedQueries(c, weights, name), {}, values, c.width);
    default:  // those of places have neither queries nor keys
      return Stack<T>(weights.Layer(name + "qk.query"), weights.Layer(name + "qk.key"), values, c.width);
  }
}

// Mᵀ = W_Kᵀ W_Q of each head with the bias W_Kᵀ b_Q in the queries' place, without keys. Multiplied in double, and
// rounded once. The keys' bias adds the same to all scores of a query.
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

// gamma and beta of the norm into the rows. Where tokens themselves are keys, these are normalised only, so that gamma
// goes into the queries once more; beta adds the same to all scores of a query, which the softmax takes away.
template <typename T>
void FoldNorm(AttentionKind kind, AttentionRows<T>* rows, nn::Norm<T>* norm) {
  const Tensor<T> gamma = std::move(norm->gamma);
  norm->gamma = gamma.Clone();
  rows->layer.FoldNorm(norm);
  if (kind == AttentionKind::kMerged) rows->layer.ScaleRows(0, rows->queries, gamma);
}

// Biases that the output does not depend on become zero, those that add the same to every output go into the
// projection's. The queries' stay.
template <typename T>
void FoldBiases(AttentionKind kind, const nn::AttentionLayer<T>& layer, AttentionRows<T>* rows, Affine<T>* projection) {
  Tensor<T>& bias = rows->layer.bias;
  const int64_t joined = layer.heads * layer.head_width;
  // The weights of a row sum to 1, so that values with a bias give the output that bias, before the projection.
  const bool folded = kind != AttentionKind::kUnified && layer.output_norm.empty() && !projection->weight.empty();
  if (folded) {
    projection->AddToBias(View<const T>(bias.data() + rows->values_begin(), {joined}));
    std::fill_n(bias.data() + rows->values_begin(), joined, T(0));
  }
  // q · (k + b) differs from q · k by the same for all keys, which the softmax takes away.
  if (!QueriesAreKeys(kind) && !ValuesAreKeys(kind) && layer.key_norm.empty()) {
    std::fill_n(bias.data() + rows->queries, rows->keys, T(0));
  }
}

// Queries that are keys, as rows of their own.
template <typename T>
nn::Linear<T> PackKeysAsQueries(const AttentionRows<T>& rows, View<const T> eigenvalues) {
  Affine<T> queries = rows.layer.Rows(rows.queries, rows.queries + rows.keys);
  if (!eigenvalues.empty()) queries.ScaleRows(0, rows.keys, eigenvalues);
  return queries.Pack();
}

// The two tables [H, N, r] as one, [2, H, N, r]; or empty.
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

}  // namespace

template <typename T>
nn::AttentionLayer<T> BuildAttention(const nn::BlockConfig& c, int64_t tokens, const BuildOptions& options,
                                     const Weights<T>& weights, const std::string& name, const AttentionWay& way,
                                     nn::Norm<T>* norm, Tensor<T>* scale) {
  nn::AttentionLayer<T> layer;
  layer.bf16 = options.precision != simd::Precision::kFloat32;
  layer.kind = way.kind;
  layer.heads = c.attention.heads;
  layer.head_width = c.attention.head_width;
  layer.qk_width = way.kind == AttentionKind::kMerged ? 0 : c.attention.qk_width;
  layer.query_norm = weights.Norm(name + "q_norm", c.eps);
  layer.key_norm = weights.Norm(name + "k_norm", c.eps);
  layer.output_norm = weights.Norm(name + "norm", c.eps);
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

  if (options.fold_norms) FoldNorm(c.attention.kind, &rows, norm);
  if (way.kind != c.attention.kind) MergeQueriesAndKeys(c.attention.heads, &rows);
  const bool together = nn::HasQueriesAndKeys(way.kind) && !way.fewer_queries;
  if (rows.queries > 0 && !together) layer.query = all.PackRows(0, rows.queries);
  if (way.absorbs && QueriesAreKeys(way.kind)) layer.query = PackKeysAsQueries<T>(rows, layer.eigenvalues);
  if (options.fold_key_value_bias && !all.bias.empty()) FoldBiases(way.kind, layer, &rows, &projection);

  const int64_t keys_end = rows.queries + rows.keys;
  const bool in_one = rows.keys > 0 && rows.keys == rows.values;
  if (rows.keys > 0) {
    layer.query_key_value = all.PackRows(together ? 0 : rows.queries, in_one ? all.rows : keys_end);
  }
  if (rows.values > 0 && !in_one) layer.value = all.PackRows(keys_end, all.rows);
  if (way.absorbs) {
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
                        const Weights<T>& weights, const std::string& name, const AttentionWay& way) {
  nn::Block<T> block;
  block.norm1 = weights.Norm(name + "norm1", c.eps);
  block.scale1 = weights.Get(name + "ls1.gamma");
  block.attention = BuildAttention<T>(c, tokens, options, weights, name + "attn.", way, &block.norm1, &block.scale1);
  block.norm2 = weights.Norm(name + "norm2", c.eps);
  block.scale2 = weights.Get(name + "ls2.gamma");
  block.mlp.activation = c.mlp.activation;
  block.mlp.norm = weights.Norm(name + "mlp.norm", c.eps);
  Affine<T> fc1 = weights.Layer(name + "mlp.fc1", options.precision),
            fc2 = weights.Layer(name + "mlp.fc2", options.precision);
  if (options.fold_norms) fc1.FoldNorm(&block.norm2);
  if (options.fold_norms && !block.mlp.norm.empty()) fc2.FoldNorm(&block.mlp.norm);
  if (options.fold_scales && !block.scale2.empty()) fc2.FoldScale(&block.scale2);
  block.mlp.fc1 = fc1.Pack(c.mlp.gate);
  block.mlp.fc2 = fc2.Pack();
  return block;
}

template nn::Block<float> BuildBlock(const nn::BlockConfig&, int64_t, const BuildOptions&, const Weights<float>&,
                                     const std::string&, const AttentionWay&);
template nn::Block<double> BuildBlock(const nn::BlockConfig&, int64_t, const BuildOptions&, const Weights<double>&,
                                      const std::string&, const AttentionWay&);
template nn::AttentionLayer<float> BuildAttention(const nn::BlockConfig&, int64_t, const BuildOptions&,
                                                  const Weights<float>&, const std::string&, const AttentionWay&,
                                                  nn::Norm<float>*, Tensor<float>*);
template nn::AttentionLayer<double> BuildAttention(const nn::BlockConfig&, int64_t, const BuildOptions&,
                                                   const Weights<double>&, const std::string&, const AttentionWay&,
                                                   nn::Norm<double>*, Tensor<double>*);

}  // namespace qkv::model
