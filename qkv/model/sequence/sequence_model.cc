// Inference with sequence models: opening, building, whole sequences, and sources of cross-attention.
#include "qkv/model/sequence/sequence_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"
#include "qkv/core/pause.h"
#include "qkv/model/blocks/attention.h"
#include "qkv/model/layout/bound_tensor.h"
#include "qkv/model/layout/limits.h"
#include "qkv/model/layout/positions.h"
#include "qkv/nn/gaussian_places.h"
#include "qkv/nn/ranges.h"

namespace qkv::model {
namespace {

// Position vectors of all blocks with positional attention kinds, [depth, 2, H, length, r]; or empty.
template <typename T>
Tensor<T> StackPlaces(const nn::AttentionConfig& c, int64_t length, const std::vector<nn::Block<T>>& blocks) {
  if (!nn::IsPositional(c.kind)) return {};
  const int64_t depth = std::ssize(blocks);
  auto places = Tensor<T>::Uninitialised({depth, 2, c.heads, length, c.place_width()});
  for (int64_t block = 0; block < depth; ++block) {
    const nn::AttentionLayer<T>& layer = blocks[static_cast<size_t>(block)].attention;
    if (c.kind == nn::AttentionKind::kGaussian) {
      nn::GaussianPlaces<T>(layer.bandwidth, 0, 1, length, places.view()[block]);
    } else {
      std::copy_n(layer.places.data(), layer.places.size(), places.view().at(block));
    }
  }
  return places;
}

// The index of the token that the model reads of a sequence, [N].
int64_t PooledToken(const SequenceConfig& c, View<const int32_t> tokens) {
  const int32_t *const begin = tokens.data(), *const end = begin + tokens.size();
  switch (c.pool) {
    case TokenPool::kNone:
    case TokenPool::kLast:
      break;
    case TokenPool::kFirstEnd: {
      const int32_t* const found = std::find(begin, end, static_cast<int32_t>(c.end_token));
      return found == end ? 0 : found - begin;
    }
    case TokenPool::kGreatest:
      return std::max_element(begin, end) - begin;
  }
  return tokens.size() - 1;
}

// The keys that attention reads; empty views for all.
struct VisibleKeys {
  View<const int64_t> lengths;  // [B]: those after them are skipped
  View<const bool> mask;        // [B, 1, 1, N], if one before them is hidden
};

// The keys of N tokens by a mask, [B, tokens], or empty. last: [B], the last token of each sequence that can be a key,
// or empty for all. Lengths of each sequence's own make its result independent of N.
VisibleKeys FindVisibleKeys(View<const bool> mask, View<const int64_t> last, int64_t N, Arena& arena) {
  if (mask.empty() && last.empty()) return {};
  const int64_t B = mask.empty() ? last.dim(0) : mask.dim(0);
  const View<int64_t> lengths = arena.New<int64_t>({B});
  const View<bool> allowed = arena.New<bool>({B, 1, 1, N});
  bool holes = false;
  for (int64_t b = 0; b < B; ++b) {
    int64_t& length = lengths.data()[b];
    const int64_t end = last.empty() ? N : last.data()[b] + 1;
    length = end;
    if (mask.empty()) continue;
    const bool* const row = mask.row(b);
    while (length > 0 && !row[length - 1]) --length;
    Require(length > 0, "sequence model: the mask of sequence {} hides every token that its token {} could attend to",
            b, end - 1);
    holes = holes || std::find(row, row + length, false) != row + length;
    std::copy_n(row, N, allowed.at(b));
  }
  return {lengths, holes ? View<const bool>(allowed) : View<const bool>()};
}

// Those of `all` that are for this block.
template <typename T>
void CollectRequests(const std::vector<typename Outputs<T>::Attention>& all, size_t block,
                     std::vector<nn::WeightsRequest<T>>* requests) {
  requests->clear();
  for (const auto& attention : all) {
    if (attention.block == static_cast<int64_t>(block)) requests->push_back(attention.request);
  }
}

// Copies x, [B, N, D], to the requests with this index.
template <typename T>
void CopyHidden(const std::vector<typename Outputs<T>::Hidden>& all, int64_t index, View<const T> x) {
  for (const auto& [block, out] : all) {
    if (block == index) std::copy_n(x.data(), x.size(), out.data());
  }
}

}  // namespace

template <typename T>
SequenceModel<T>::SequenceModel(const SequenceConfig& config, const std::vector<BoundTensor>& tensors,
                                const BuildOptions& options)
    : config_(config) {
  Validate(config);
  double elements = 0;
  for (const BoundTensor& tensor : tensors) elements += static_cast<double>(tensor.spec.shape.size());
  RequireMemory(PositionBytes(config) + sizeof(T) * elements, "build: the sequence model's layers");
  const Weights<T> weights(tensors);
  tokens_ = weights.Get("token_embed.weight");
  types_ = weights.Get("type_embed.weight");
  if (config.positions == SequencePositions::kLearned) positions_ = weights.Get("pos_embed");
  if (config.positions == SequencePositions::kRelative) {
    relative_ = RelativeScores<T>(config, weights.Get("rel_bias.weight"));
  }
  norm_pre_ = weights.Norm("norm_pre", config.block.norm);
  blocks_.resize(static_cast<size_t>(config.depth));
  ParallelTasks(config.depth, [&](int64_t block, int) {
    blocks_[static_cast<size_t>(block)] = BuildBlock<T>(config.block, config.length, options, weights,
                                                        fmt::format("blocks.{}.", block), BlockBuild(block));
  });
  ComputePositions();
  norm_ = weights.Norm("norm", config.block.norm);
  pooler_ = weights.Layer("pooler", options.precision).Pack();
  if (config.outputs == 0) return;
  head_norm_ = weights.Norm("norm", config.block.norm);
  Affine<T> head = weights.Layer("head", options.precision);
  if (config.tied_head) head.weight = tokens_.Clone(), head.rows = config.outputs;
  for (T& value : head.weight.span()) value *= static_cast<T>(config.head_scale);
  if (options.fold_norms && config.final_norm) head.FoldNorm(&head_norm_);
  head_ = head.Pack();
}

template <typename T>
AttentionBuild SequenceModel<T>::BlockBuild(int64_t block) const {
  const SequenceConfig& c = config_;
  return {.kind = c.block.attention.kind,
          .fewer_queries = c.causal && c.pool == TokenPool::kNone && block + 1 == c.depth,
          .rotary = c.positions == SequencePositions::kRotary,
          .block = block};
}

template <typename T>
void SequenceModel<T>::ComputePositions() {
  const SequenceConfig& c = config_;
  if (AreComputed(c.positions)) positions_ = ComputedPositions<T>(c);
  if (c.positions == SequencePositions::kRotary) {
    rotary_ = std::make_unique<const nn::RotaryTable>(c.length, c.block.attention.score_width(), c.rotary_base,
                                                      c.rotary_scaling);
  }
  places_ = StackPlaces(c.block.attention, c.length, blocks_);
}

template <typename T>
double SequenceModel<T>::PositionBytes(const SequenceConfig& c) {
  const bool rotary = c.positions == SequencePositions::kRotary;
  return sizeof(T) * PlaceElements(c, c.length) +
         (rotary ? nn::RotaryTable::Bytes(c.length, c.block.attention.score_width()) : 0);
}

template <typename T>
int64_t SequenceModel<T>::weight_bytes() const {
  int64_t bytes = decoding_bytes() + pooler_.weight.bytes();
  for (const nn::Block<T>& block : blocks_) {
    bytes += block.cross.query_key_value.weight.bytes() + block.cross.value.weight.bytes();
  }
  return bytes;
}

template <typename T>
int64_t SequenceModel<T>::decoding_bytes() const {
  int64_t bytes = head_.weight.bytes();
  const auto add = [&](const nn::Linear<T>& layer) { bytes += layer.weight.bytes(); };
  for (const nn::Block<T>& block : blocks_) {
    const nn::AttentionLayer<T>& own = block.attention;
    add(own.query), add(own.query_key_value), add(own.value), add(own.projection);
    add(block.cross.query), add(block.cross.projection), add(block.mlp.fc1), add(block.mlp.fc2);
  }
  return bytes;
}

template <typename T>
SequenceModel<T> SequenceModel<T>::Load(const std::filesystem::path& folder, const BuildOptions& options) {
  const SequenceCheckpoint checkpoint = SequenceCheckpoint::Open(folder);
  return SequenceModel(checkpoint.config, checkpoint.bound, options);
}

template <typename T>
void SequenceModel<T>::Embedding(View<const int32_t> tokens, const RunOptions& options, View<T> x) const {
  const int64_t N = tokens.dim(1), D = config_.block.width;
  const T scale = static_cast<T>(config_.embedding_scale);
  const View<const T> places =
      positions_.empty() ? View<const T>() : positions_.view().reshape({positions_.size() / D, D});
  nn::ForRowRanges(tokens.size(), D, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* const vector = tokens_.view().row(tokens.data()[row]);
      T* const to = x.data() + row * D;
      for (int64_t d = 0; d < D; ++d) to[d] = scale * vector[d];
      const auto add = [&](const T* other) {
        for (int64_t d = 0; d < D; ++d) to[d] += other[d];
      };
      if (!types_.empty()) add(types_.view().row(options.types.empty() ? 0 : options.types.data()[row]));
      if (places.empty()) continue;
      const int64_t first = options.first.empty() ? 0 : options.first[static_cast<size_t>(row / N)];
      add(places.row(config_.position_offset + first + row % N));
    }
  });
  const View<T> rows = x.reshape({tokens.size(), D});
  if (config_.embedding_norm) nn::NormForward<T>(rows, norm_pre_, rows);
}

template <typename T>
View<const T> SequenceModel<T>::RelativeBias(int64_t first, int64_t N) const {
  if (relative_.empty()) return {};
  // Entry [h, i, j] lies at distance j − first − i: a query further on begins one element earlier.
  const int64_t H = relative_.dim(0), row = relative_.dim(1);
  return {relative_.data() + config_.length - 1 - first, {1, H, N, first + N}, {0, row, -1, 1}};
}

template <typename T>
View<T> SequenceModel<T>::Run(View<const int32_t> tokens, Arena& arena, const RunOptions& options) const {
  RequireTokens(config_, tokens);
  if (restored_from_) restored_from_->RequireUnchanged();
  const int64_t B = tokens.dim(0), N = tokens.dim(1);
  const int64_t first = options.first.empty() ? 0 : std::ranges::max(options.first);
  const double bytes = sizeof(T) * ActivationElements(config_, B, N);
  if (bytes > static_cast<double>(MemoryLimit())) {
    RequireMemory(bytes, fmt::format("sequence model: a pass of {} sequences of {} tokens", B, N));
  }
  Require(config_.block.cross.has_value() == (options.source != nullptr),
          "sequence model: a decoder with cross-attention needs a source, and no other model has one");
  Require(!options.source || options.source->blocks.size() == blocks_.size(),
          "sequence model: a source that this model has not read");
  const View<T> x = arena.New<T>({B, N, config_.block.width});
  Embedding(tokens, options, x);
  nn::Probe<T>* const probe = options.requests ? options.requests->probe : nullptr;
  nn::Tap<T>{probe}("embed", x);
  View<int64_t> positions;
  if (options.source && options.source->weights != nn::CrossWeights()) {
    positions = arena.New<int64_t>({B, N});
    for (int64_t b = 0; b < B; ++b) {
      std::iota(positions.row(b), positions.row(b) + N,
                options.first.empty() ? 0 : options.first[static_cast<size_t>(b)]);
    }
  }
  std::vector<nn::WeightsRequest<T>> requests, source_requests;
  for (size_t block = 0; block < std::min(options.blocks, blocks_.size()); ++block) {
    Pause();
    nn::AttentionContext<T> context;
    context.mask = options.mask;
    context.key_lengths = options.key_lengths;
    context.causal = config_.causal;
    context.block = static_cast<int64_t>(block), context.probe = probe;
    context.rotary = rotary_.get();
    context.bias = RelativeBias(first, N);
    if (!places_.empty()) context.places = places_.view()[static_cast<int64_t>(block)].slice(2, 0, first + N);
    if (!options.caches.empty()) {
      context.cache = options.caches[block].Rows(options.cached_begin, options.cached_begin + B);
    }
    if (options.source) {
      context.source = options.source->blocks[block].Rows(options.source_begin, options.source_end);
      context.cross_weights = &options.source->weights;
      context.positions = positions;
    }
    if (options.requests) {
      CollectRequests<T>(options.requests->attention, block, &requests);
      CollectRequests<T>(options.requests->cross_attention, block, &source_requests);
      CopyHidden<T>(options.requests->hidden, static_cast<int64_t>(block), x);
      context.requests = requests, context.source_requests = source_requests;
    }
    // The last rows of a shorter sequence would not be the rows of its tokens.
    context.last_rows = options.key_lengths.empty();
    const bool last = block + 1 == blocks_.size() && options.rows > 0;
    nn::BlockForward<T>(x, blocks_[block], last ? options.rows : N, arena, context);
  }
  if (options.requests) CopyHidden<T>(options.requests->hidden, std::ssize(blocks_), x);
  return x;
}

template <typename T>
void SequenceModel<T>::OutputForward(View<const T> x, Arena& arena, View<T> logits) const {
  const Shape one({1, x.dim(0), x.dim(1)});
  const View<const T> rows(x.data(), one, {x.dim(0) * x.stride(0), x.stride(0), 1});
  const nn::Input<T> normed = config_.final_norm ? nn::Normalised<T>(rows, head_norm_, arena) : nn::Input<T>(rows);
  nn::LinearForward<T>(nn::AsOneMatrix(normed), head_, logits);
}

template <typename T>
void SequenceModel<T>::Logits(View<const int32_t> tokens, Arena& arena, View<T> logits) const {
  Forward(tokens, {}, arena, {.logits = logits});
}

template <typename T>
Tensor<T> SequenceModel<T>::Logits(View<const int32_t> tokens) const {
  Require(tokens.rank() == 2, "sequence model: expected tokens [B, N], got {}", tokens.shape());
  auto logits = Tensor<T>::Uninitialised({tokens.dim(0), tokens.dim(1), config_.outputs});
  Arena arena;
  Logits(tokens, arena, logits);
  return logits;
}

template <typename T>
void SequenceModel<T>::RequireShape(View<const int32_t> tokens) const {
  Require(
      tokens.rank() == 2 && tokens.dense() && tokens.dim(0) > 0 && tokens.dim(1) > 0 && tokens.dim(1) <= config_.length,
      "sequence model: expected dense tokens [B, N], N of 1 to {}, got {}", config_.length, tokens.shape());
}

template <typename T>
void SequenceModel<T>::Forward(View<const int32_t> tokens, const SequenceInputs<T>& inputs, Arena& arena,
                               const SequenceOutputs<T>& outputs) const {
  RequireShape(tokens);
  const int64_t B = tokens.dim(0), N = tokens.dim(1), D = config_.block.width;
  const auto require_output = [&](View<T> out, int64_t width, std::string_view what) {
    Require(out.empty() || (out.shape() == Shape({B, N, width}) && out.dense() && width > 0),
            "sequence model: {} are {}, expected [{}, {}, {}], dense", what, out.shape(), B, N, width);
  };
  require_output(outputs.logits, config_.outputs, "logits");
  require_output(outputs.tokens, D, "output tokens");
  for (const auto& hidden : outputs.hidden) {
    Require(hidden.index >= 0 && hidden.index <= config_.depth && !hidden.out.empty(),
            "sequence model: hidden state {} of 0 to {}", hidden.index, config_.depth);
    require_output(hidden.out, D, "hidden states");
  }
  Require(outputs.pooled.empty() || (config_.pooler_width > 0 && outputs.pooled.dense() &&
                                     outputs.pooled.shape() == Shape({B, config_.pooler_width})),
          "sequence model: the pooled tokens are {}, expected [{}, {}], dense", outputs.pooled.shape(), B,
          config_.pooler_width);
  Require(inputs.types.empty() || (inputs.types.shape() == tokens.shape() && inputs.types.dense()),
          "sequence model: token types are {}, expected {}, dense", inputs.types.shape(), tokens.shape());
  for (int64_t i = 0; i < inputs.types.size() && !inputs.types.empty(); ++i) {
    const int32_t type = inputs.types.data()[i];
    Require(type >= 0 && type < std::max<int64_t>(1, config_.token_types),
            "sequence model: the type of token {} is {}, and there are {}", i, type, config_.token_types);
  }
  Require(inputs.mask.empty() || (inputs.mask.shape() == tokens.shape() && inputs.mask.dense()),
          "sequence model: the mask is {}, expected {}, dense", inputs.mask.shape(), tokens.shape());
  arena.Reset();
  const VisibleKeys keys = FindVisibleKeys(inputs.mask, {}, N, arena);
  const View<T> x = Run(tokens, arena,
                        {.source_begin = 0,
                         .source_end = inputs.source ? inputs.source->entries : 0,
                         .mask = keys.mask,
                         .key_lengths = keys.lengths,
                         .types = inputs.types,
                         .source = inputs.source,
                         .requests = &outputs});
  const View<const T> rows = x.reshape({B * N, D});
  const View<T> logits = outputs.logits.empty() ? View<T>() : outputs.logits.reshape({B * N, config_.outputs});
  const nn::Tap<T> tap{outputs.probe};
  const bool shows_norm = config_.final_norm && tap.Wants("norm");
  Require(!shows_norm || !head_norm_.folded,
          "sequence model: a probe of the final norm, which is folded into the head");
  if (!logits.empty() && !shows_norm) OutputForward(rows, arena, logits);
  // From here on x is the output of the final norm.
  if (config_.final_norm) nn::NormForward<T>(rows, norm_, x.reshape(rows.shape()));
  if (shows_norm) tap("norm", x);
  if (!logits.empty() && shows_norm) nn::LinearForward<T>(rows, head_, logits);
  if (!outputs.tokens.empty()) std::copy_n(rows.data(), rows.size(), outputs.tokens.data());
  if (outputs.pooled.empty()) return;
  const View<const T> first(x.data(), {B, D}, {N * D, 1});
  nn::LinearForward<T>(first, pooler_, outputs.pooled, {.activation = simd::Activation::kTanh});
}

template <typename T>
void SequenceModel<T>::ReadSource(View<const T> source, View<const int64_t> lengths, Arena& arena,
                                  Source<T>* read) const {
  Require(config_.block.cross.has_value(), "sequence model: it has no cross-attention, and so reads no source");
  const int64_t S = config_.block.cross->source(config_.block.width);
  Require(source.rank() == 3 && source.dense() && source.dim(2) == S && lengths.shape() == Shape({source.dim(0)}),
          "sequence model: a source of {} with lengths {}, expected [B, N, {}], dense, and [B]", source.shape(),
          lengths.shape(), S);
  const int64_t B = source.dim(0), N = source.dim(1);
  for (const int64_t length : std::span(lengths.data(), static_cast<size_t>(B))) {
    Require(length > 0 && length <= N, "sequence model: a source of {} tokens, expected 1 to {}", length, N);
  }
  // Made by this model, for as many entries and tokens.
  bool fits = read->blocks.size() == blocks_.size();
  for (size_t block = 0; block < blocks_.size() && fits; ++block) {
    const nn::AttentionLayer<T>& layer = blocks_[block].cross;
    const nn::KeyValueCache<T>& cache = read->blocks[block];
    fits = cache.value.shape() == Shape({B, layer.kv_heads(), N, layer.head_width}) &&
           static_cast<double>(cache.key.size() + cache.value.size()) ==
               nn::KeyValueCache<T>::Elements(layer, B, S, N, false);
  }
  if (!fits) {
    double elements = 0;
    for (const nn::Block<T>& block : blocks_) elements += nn::KeyValueCache<T>::Elements(block.cross, B, S, N, false);
    RequireMemory(sizeof(T) * elements, "decoder: keys and values of the source");
    read->blocks.clear();
    for (const nn::Block<T>& block : blocks_) read->blocks.emplace_back(block.cross, B, S, N, false);
  }
  read->entries = B;
  for (size_t block = 0; block < blocks_.size(); ++block) {
    nn::CrossAttentionFill<T>(source, lengths, blocks_[block].cross, read->blocks[block], arena);
  }
}

template <typename T>
void SequenceModel<T>::Embed(View<const int32_t> tokens, View<const bool> mask, Arena& arena, View<T> out) const {
  const int64_t outputs = config_.outputs, D = config_.block.width;
  Require(config_.pool != TokenPool::kNone, "sequence model: it reads every token (\"pool\": \"none\"), not one");
  RequireShape(tokens);
  const int64_t B = tokens.dim(0);
  Require(out.shape() == Shape({B, outputs}) && out.dense(),
          "sequence model: the outputs are {}, expected [{}, {}], dense", out.shape(), B, outputs);
  arena.Reset();
  const View<int64_t> pooled = arena.New<int64_t>({B});
  for (int64_t b = 0; b < B; ++b) pooled.data()[b] = PooledToken(config_, tokens[b]);
  const int64_t N = config_.causal ? 1 + *std::max_element(pooled.data(), pooled.data() + B) : tokens.dim(1);
  const View<int32_t> read = arena.New<int32_t>({B, N});
  for (int64_t b = 0; b < B; ++b) std::copy_n(tokens.row(b), N, read.row(b));
  Require(mask.empty() || (mask.shape() == tokens.shape() && mask.dense()),
          "sequence model: the mask is {}, expected {}, dense", mask.shape(), tokens.shape());
  const VisibleKeys keys = FindVisibleKeys(mask, config_.causal ? pooled : View<int64_t>(), N, arena);
  const View<T> x = Run(read, arena, {.mask = keys.mask, .key_lengths = keys.lengths}), rows = arena.New<T>({B, D});
  for (int64_t b = 0; b < B; ++b) std::copy_n(x.at(b, pooled.data()[b]), D, rows.row(b));
  OutputForward(rows, arena, out);
}

template <typename T>
std::string SequenceModel<T>::WhereNotFinite(std::span<const int32_t> tokens) const {
  const View<const int32_t> sequence(tokens.data(), {1, std::ssize(tokens)});
  for (size_t blocks = 0; blocks <= blocks_.size(); ++blocks) {
    Arena arena;
    const View<T> x = Run(sequence, arena, {.blocks = blocks});
    if (std::all_of(x.data(), x.data() + x.size(), [](T value) { return std::isfinite(value); })) continue;
    return blocks == 0 ? "the embedding of tokens" : fmt::format("block {} of 0 to {}", blocks - 1, blocks_.size() - 1);
  }
  return "what follows the blocks (norm, classifier)";
}

template <typename T>
void Source<T>::Select(std::span<const int64_t> rows) {
  for (nn::KeyValueCache<T>& block : blocks) block.Select(rows);
  entries = std::ssize(rows);
}

template struct Source<float>;
template struct Source<double>;
template class SequenceModel<float>;
template class SequenceModel<double>;

}  // namespace qkv::model
