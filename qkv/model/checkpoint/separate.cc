#include "qkv/model/checkpoint/separate.h"

#include <algorithm>

namespace qkv::model {
namespace {

using nn::AttentionKind;

// The slice [begin, end) of the first axis.
template <typename T>
Tensor<T> Part(const Tensor<T>& tensor, int64_t begin, int64_t end) {
  if (tensor.empty()) return {};
  const View<const T> from = tensor.view().slice(0, begin, end);
  auto part = Tensor<T>::Uninitialised(from.shape());
  std::copy_n(from.data(), part.size(), part.data());
  return part;
}

template <typename T>
Tensor<T> CloneOrEmpty(const Tensor<T>& tensor) {
  return tensor.empty() ? Tensor<T>() : tensor.Clone();
}

// Stacks Mᵀ of all heads, with u as their bias; the keys are the tokens.
template <typename T>
void ReadMerged(const StoredBlocks& blocks, const std::string& attn, QueryKeyValue<T>* pair) {
  const auto merged = blocks.Read<T>(attn + "qk.merged");
  const int64_t H = merged.dim(0), D = merged.dim(1), S = merged.dim(2);
  pair->query = Tensor<T>::Uninitialised({H * S, D});
  pair->key = Tensor<T>({H * S, S});
  for (int64_t h = 0; h < H; ++h) {
    for (int64_t j = 0; j < S; ++j) {
      for (int64_t i = 0; i < D; ++i) *pair->query.view().at(h * S + j, i) = *merged.view().at(h, i, j);
      *pair->key.view().at(h * S + j, j) = 1;
    }
  }
  if (const auto term = blocks.Read<T>(attn + "qk.key_term"); !term.empty()) {
    pair->query_bias = Tensor<T>::Uninitialised({H * S});
    std::copy_n(term.data(), H * S, pair->query_bias.data());
  }
}

// Copies the r rows of each head of `from`, [H·r, …], to the first of E rows per head in `to`.
template <typename T>
void CopyHeads(const Tensor<T>& from, int64_t heads, int64_t E, T* to) {
  if (from.empty()) return;
  const int64_t of_head = from.size() / heads, row = from.size() / from.dim(0);
  for (int64_t h = 0; h < heads; ++h) std::copy_n(from.data() + h * of_head, of_head, to + h * E * row);
}

// Rows of keys or values of each head, [H·r, …], which heads may share in the file.
template <typename T>
Tensor<T> EachHead(Tensor<T> shared, const nn::AttentionConfig& c) {
  if (shared.empty() || !c.groups_heads()) return shared;
  const int64_t rows = shared.dim(0) / c.kv_heads() * c.heads, of_head = shared.size() / c.kv_heads();
  const bool is_bias = shared.shape().rank() == 1;
  auto each = Tensor<T>::Uninitialised(is_bias ? Shape({rows}) : Shape({rows, shared.dim(1)}));
  RepeatForHeads<T>(shared.view().reshape({c.kv_heads(), of_head}), each.view().reshape({c.heads, of_head}));
  return each;
}

// The queries, keys and values of a separate layer, which a file has in one matrix or, of cross-attention, in two.
template <typename T>
QueryKeyValue<T> ReadSeparate(const StoredBlocks& blocks, const nn::AttentionConfig& c, const std::string& attn) {
  const auto read = [&](const char* name) { return blocks.Read<T>(attn + name); };
  const auto each = [&](const Tensor<T>& shared, int64_t begin, int64_t end) {
    return EachHead(Part(shared, begin, end), c);
  };
  const int64_t queries = c.heads * c.query_width(), keys = c.kv_heads() * c.query_width(), values = c.values_width();
  QueryKeyValue<T> made;
  Tensor<T> weight, bias;
  int64_t begin = 0;  // of the keys
  if (c.of_source) {
    made.query = read("q.weight"), made.query_bias = read("q.bias");
    weight = read("kv.weight"), bias = read("kv.bias");
  } else {
    weight = read("qkv.weight"), bias = read("qkv.bias");
    made.query = Part(weight, 0, queries), made.query_bias = Part(bias, 0, queries);
    begin = queries;
  }
  const int64_t middle = begin + keys, end = middle + values;
  made.key = each(weight, begin, middle), made.key_bias = each(bias, begin, middle);
  made.value = each(weight, middle, end), made.value_bias = each(bias, middle, end);
  return made;
}

template <typename T>
QueryKeyValue<T> ReadLayer(const StoredBlocks& blocks, const nn::AttentionConfig& c, int64_t block,
                           std::string_view layer) {
  Require(block >= 0 && block < blocks.depth(), "{}: expected a block from 0 to {}, got {}", blocks.source(),
          blocks.depth() - 1, block);
  const std::string none = PairObstruction(c.kind);
  Require(none.empty(), "{}: no W_Q and W_K of a head give its scores: {}", blocks.source(), none);
  const std::string attn = fmt::format("blocks.{}.{}", block, layer);
  const auto read = [&](const char* name) { return blocks.Read<T>(attn + name); };
  const auto each = [&](Tensor<T> shared) { return EachHead(std::move(shared), c); };
  if (c.kind == AttentionKind::kSeparate) return ReadSeparate<T>(blocks, c, attn);
  QueryKeyValue<T> pair;
  if (c.kind == AttentionKind::kMerged) {
    ReadMerged(blocks, attn, &pair);
  } else if (nn::QueriesAreKeys(c.kind)) {
    pair.key = read("qk.weight"), pair.key_bias = read("qk.bias");
    pair.query = CloneOrEmpty(pair.key), pair.query_bias = CloneOrEmpty(pair.key_bias);
    const Tensor<T> eigenvalues = read("qk.eigenvalues");
    const int64_t D = blocks.config().width;
    for (int64_t row = 0; row < eigenvalues.size(); ++row) {
      for (int64_t d = 0; d < D; ++d) pair.query[row * D + d] *= eigenvalues[row];
    }
  } else {
    pair.query = read("qk.query.weight"), pair.query_bias = read("qk.query.bias");
    pair.key = each(read("qk.key.weight")), pair.key_bias = each(read("qk.key.bias"));
  }
  const bool shared = nn::ValuesAreKeys(c.kind);
  pair.value = shared ? CloneOrEmpty(pair.key) : each(read("v.weight"));
  pair.value_bias = shared ? CloneOrEmpty(pair.key_bias) : each(read("v.bias"));
  return pair;
}

}  // namespace

template <typename T>
QueryKeyValue<T> ReadQueryKeyValue(const StoredBlocks& blocks, int64_t block) {
  return ReadLayer<T>(blocks, blocks.config().attention, block, "attn.");
}

template <typename T>
QueryKeyValue<T> ReadCrossQueryKeyValue(const StoredBlocks& blocks, int64_t block) {
  Require(blocks.config().cross.has_value(), "{}: its blocks have no cross-attention", blocks.source());
  return ReadLayer<T>(blocks, *blocks.config().cross, block, "cross_attn.");
}

template <typename T>
FusedProjection<T> ReadFusedProjection(const Checkpoint& checkpoint, int64_t block) {
  const VitConfig& c = checkpoint.description.config;
  const std::string obstruction = SeparationObstruction(c);
  Require(obstruction.empty(), "{}: {}", checkpoint.source, obstruction);
  const QueryKeyValue<T> pair = ReadQueryKeyValue<T>(checkpoint, block);
  const int64_t H = c.block.attention.heads, E = c.block.attention.head_width, joined = H * E;
  FusedProjection<T> fused;
  fused.weight = Tensor<T>({3 * joined, c.block.width});
  CopyHeads(pair.query, H, E, fused.weight.data());
  CopyHeads(pair.key, H, E, fused.weight.data() + joined * c.block.width);
  CopyHeads(pair.value, H, E, fused.weight.data() + 2 * joined * c.block.width);
  if (c.block.attention.bias) {
    fused.bias = Tensor<T>({3 * joined});
    CopyHeads(pair.query_bias, H, E, fused.bias.data());
    CopyHeads(pair.key_bias, H, E, fused.bias.data() + joined);
    CopyHeads(pair.value_bias, H, E, fused.bias.data() + 2 * joined);
  }
  return fused;
}

template QueryKeyValue<float> ReadQueryKeyValue(const StoredBlocks&, int64_t);
template QueryKeyValue<double> ReadQueryKeyValue(const StoredBlocks&, int64_t);
template QueryKeyValue<float> ReadCrossQueryKeyValue(const StoredBlocks&, int64_t);
template QueryKeyValue<double> ReadCrossQueryKeyValue(const StoredBlocks&, int64_t);
template FusedProjection<float> ReadFusedProjection(const Checkpoint&, int64_t);
template FusedProjection<double> ReadFusedProjection(const Checkpoint&, int64_t);

}  // namespace qkv::model
