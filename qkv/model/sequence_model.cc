// Inference with sequence models: opening, building, logits of whole sequences, and the decoder.
#include "qkv/model/sequence_model.h"

#include <algorithm>
#include <cmath>

#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"
#include "qkv/model/build/attention.h"
#include "qkv/model/checkpoint/limits.h"
#include "qkv/model/checkpoint/model_folder.h"
#include "qkv/model/checkpoint/opening.h"
#include "qkv/model/positions.h"
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

// The keys of N tokens by a mask, [B, tokens], or empty. pooled: [B], the tokens that are read. A causal model reads no
// key after these; lengths of each sequence's own make its result independent of N.
VisibleKeys FindVisibleKeys(View<const bool> mask, View<const int64_t> pooled, int64_t N, bool causal, Arena& arena) {
  if (mask.empty() && !causal) return {};
  const int64_t B = pooled.dim(0);
  const View<int64_t> lengths = arena.New<int64_t>({B});
  const View<bool> allowed = arena.New<bool>({B, 1, 1, N});
  bool holes = false;
  for (int64_t b = 0; b < B; ++b) {
    int64_t& length = lengths.data()[b];
    length = causal ? pooled.data()[b] + 1 : N;
    if (mask.empty()) continue;
    const bool* const row = mask.row(b);
    while (length > 0 && !row[length - 1]) --length;
    Require(length > 0, "sequence model: the mask of sequence {} hides every token that its token {} could attend to",
            b, pooled.data()[b]);
    holes = holes || std::find(row, row + length, false) != row + length;
    std::copy_n(row, N, allowed.at(b));
  }
  return {lengths, holes ? View<const bool>(allowed) : View<const bool>()};
}

SequenceCheckpoint OpenOnce(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / kConfigFile;
  const std::optional<io::Json> config = ReadOptionalJson(file);
  Require(config.has_value(), "cannot open sequence model {}: there is no {}", folder.string(), kConfigFile);
  SequenceCheckpoint checkpoint;
  checkpoint.source = folder.string();
  checkpoint.config = ParseSequenceConfig(*config, file.string());
  checkpoint.tensors = std::make_shared<const io::SafeTensors>(io::SafeTensors::Open(folder));
  try {
    checkpoint.bound = Bind(TensorTable(checkpoint.config), *checkpoint.tensors, "this sequence model");
  } catch (const Error& error) {
    Fail("{}: {}", folder.string(), EscapedText{error.what()});
  }
  return checkpoint;
}

}  // namespace

SequenceCheckpoint SequenceCheckpoint::Open(const std::filesystem::path& folder) {
  std::error_code ignored;
  Require(std::filesystem::is_directory(folder, ignored), "cannot open sequence model {}: it is no folder",
          folder.string());
  return OpenWhole(folder, [&] { return OpenOnce(folder); });
}

template <typename T>
SequenceModel<T>::SequenceModel(const SequenceConfig& config, const std::vector<BoundTensor>& tensors,
                                const BuildOptions& options)
    : config_(config) {
  Validate(config);
  double elements = PlaceElements(config.block, config.depth, config.length);
  if (config.positions == SequencePositions::kSinusoidal) {
    elements += static_cast<double>(config.length) * static_cast<double>(config.block.width);
  }
  for (const BoundTensor& tensor : tensors) elements += static_cast<double>(tensor.spec.shape.size());
  const double rotary = config.positions == SequencePositions::kRotary
                            ? nn::RotaryTable::Bytes(config.length, config.block.attention.query_width())
                            : 0;
  RequireMemory(rotary + sizeof(T) * elements, "build: the sequence model's layers");
  const Weights<T> weights(tensors);
  tokens_ = weights.Get("token_embed.weight");
  if (config.positions == SequencePositions::kLearned) positions_ = weights.Get("pos_embed");
  if (config.positions == SequencePositions::kSinusoidal) {
    positions_ = Tensor<T>::Uninitialised({1, config.length, config.block.width});
    SinCosSequence<T>(positions_.view()[0]);
  }
  if (config.positions == SequencePositions::kRotary) {
    rotary_ = std::make_unique<const nn::RotaryTable>(config.length, config.block.attention.query_width(),
                                                      config.rotary_base);
  }
  blocks_.resize(static_cast<size_t>(config.depth));
  ParallelTasks(config.depth, [&](int64_t block, int) {
    blocks_[static_cast<size_t>(block)] =
        BuildBlock<T>(config.block, config.length, options, weights, fmt::format("blocks.{}.", block),
                      {.kind = config.block.attention.kind,
                       .fewer_queries = config.causal && config.pool == TokenPool::kNone && block + 1 == config.depth,
                       .rotary = rotary_ != nullptr});
  });
  places_ = StackPlaces(config.block.attention, config.length, blocks_);
  norm_ = weights.Norm("norm", config.block.norm);
  Affine<T> head = weights.Layer("head", options.precision);
  if (options.fold_norms && config.final_norm) head.FoldNorm(&norm_);
  head_ = head.Pack();
}

template <typename T>
SequenceModel<T> SequenceModel<T>::Load(const std::filesystem::path& folder, const BuildOptions& options) {
  const SequenceCheckpoint checkpoint = SequenceCheckpoint::Open(folder);
  return SequenceModel(checkpoint.config, checkpoint.bound, options);
}

template <typename T>
View<T> SequenceModel<T>::Run(View<const int32_t> tokens, Arena& arena, const RunOptions& options) const {
  RequireTokens(config_, tokens);
  const int64_t B = tokens.dim(0), N = tokens.dim(1), D = config_.block.width, all = options.first + N;
  const double bytes = sizeof(T) * ActivationElements(config_, B, N);
  if (bytes > static_cast<double>(MemoryLimit())) {
    RequireMemory(bytes, fmt::format("sequence model: a pass of {} sequences of {} tokens", B, N));
  }
  const View<T> x = arena.New<T>({B, N, D});
  nn::ForRowRanges(B * N, D, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* const vector = tokens_.view().row(tokens.data()[row]);
      const T* const place = positions_.empty() ? nullptr : positions_.view().at(0, options.first + row % N);
      T* const to = x.data() + row * D;
      for (int64_t d = 0; d < D; ++d) to[d] = place ? vector[d] + place[d] : vector[d];
    }
  });
  for (size_t block = 0; block < std::min(options.blocks, blocks_.size()); ++block) {
    nn::AttentionContext<T> context;
    context.mask = options.mask;
    context.key_lengths = options.key_lengths;
    context.causal = config_.causal;
    context.rotary = rotary_.get();
    if (!places_.empty()) context.places = places_.view()[static_cast<int64_t>(block)].slice(2, 0, all);
    if (!options.caches.empty()) context.cache = &options.caches[block];
    // The last rows of a shorter sequence would not be the rows of its tokens.
    context.last_rows = options.key_lengths.empty();
    const bool last = block + 1 == blocks_.size() && options.rows > 0;
    nn::BlockForward<T>(x, blocks_[block], last ? options.rows : N, arena, context);
  }
  return x;
}

template <typename T>
void SequenceModel<T>::OutputForward(View<const T> x, Arena& arena, View<T> logits) const {
  const Shape one({1, x.dim(0), x.dim(1)});
  const View<const T> rows(x.data(), one, {x.dim(0) * x.stride(0), x.stride(0), 1});
  const nn::Input<T> normed = config_.final_norm ? nn::Normalised<T>(rows, norm_, arena) : nn::Input<T>(rows);
  nn::LinearForward<T>(nn::AsOneMatrix(normed), head_, logits);
}

template <typename T>
void SequenceModel<T>::Logits(View<const int32_t> tokens, Arena& arena, View<T> logits) const {
  const int64_t length = config_.length, outputs = config_.outputs;
  Require(tokens.rank() == 2 && tokens.dense() && tokens.dim(0) > 0 && tokens.dim(1) > 0 && tokens.dim(1) <= length,
          "sequence model: expected dense tokens [B, N], N of 1 to {}, got {}", length, tokens.shape());
  const int64_t B = tokens.dim(0), N = tokens.dim(1);
  Require(logits.shape() == Shape({B, N, outputs}) && logits.dense(),
          "sequence model: logits are {}, expected [{}, {}, {}], dense", logits.shape(), B, N, outputs);
  arena.Reset();
  const View<T> x = Run(tokens, arena);
  OutputForward(x.reshape({B * N, config_.block.width}), arena, logits.reshape({B * N, outputs}));
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
void SequenceModel<T>::Embed(View<const int32_t> tokens, View<const bool> mask, Arena& arena, View<T> out) const {
  const int64_t length = config_.length, outputs = config_.outputs, D = config_.block.width;
  Require(config_.pool != TokenPool::kNone, "sequence model: it reads every token (\"pool\": \"none\"), not one");
  Require(tokens.rank() == 2 && tokens.dense() && tokens.dim(0) > 0 && tokens.dim(1) > 0 && tokens.dim(1) <= length,
          "sequence model: expected dense tokens [B, N], N of 1 to {}, got {}", length, tokens.shape());
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
  const VisibleKeys keys = FindVisibleKeys(mask, pooled, N, config_.causal, arena);
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
Decoder<T>::Decoder(const SequenceModel<T>& model) : model_(model) {
  const SequenceConfig& c = model.config();
  Require(c.causal, "decoder: the model is not causal: what a token is answered depends on those that follow");
  const bool rotary = model.rotary_ != nullptr;
  double elements = 0;
  for (const nn::Block<T>& block : model.blocks_) {
    elements += nn::KeyValueCache<T>::Elements(block.attention, 1, c.block.width, c.length, rotary);
  }
  RequireMemory(sizeof(T) * elements, "decoder: keys and values of as many tokens as the model takes");
  for (const nn::Block<T>& block : model.blocks_) {
    caches_.emplace_back(block.attention, 1, c.block.width, c.length, rotary);
  }
  tokens_.reserve(static_cast<size_t>(c.length));
  logits_ = Tensor<T>({1, c.outputs});
}

template <typename T>
std::span<const T> Decoder<T>::Prefill(std::span<const int32_t> tokens) {
  Require(!tokens.empty(), "decoder: expected one token at least to begin with");
  const auto length = static_cast<size_t>(model_.config().length);
  tokens_.clear();
  for (nn::KeyValueCache<T>& cache : caches_) cache.tokens = 0;
  return Feed(tokens.last(std::min(tokens.size(), length)));
}

template <typename T>
std::span<const T> Decoder<T>::Next(int32_t token) {
  RequireTokens(model_.config(), View<const int32_t>(&token, {1}));
  const auto length = static_cast<size_t>(model_.config().length);
  if (tokens_.size() < length) return Feed({&token, 1});
  tokens_.erase(tokens_.begin(), tokens_.end() - static_cast<std::ptrdiff_t>(length / 2));
  tokens_.push_back(token);
  const std::vector<int32_t> kept = tokens_;
  return Prefill(kept);
}

template <typename T>
std::span<const T> Decoder<T>::Feed(std::span<const int32_t> tokens) {
  const auto first = static_cast<int64_t>(tokens_.size()), N = static_cast<int64_t>(tokens.size());
  arena_.Reset();
  const View<T> x =
      model_.Run(View<const int32_t>(tokens.data(), {1, N}), arena_, {.first = first, .caches = caches_, .rows = 1});
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  model_.OutputForward(x[0].slice(0, N - 1, N), arena_, logits_);
  return logits_.span();
}

template class SequenceModel<float>;
template class SequenceModel<double>;
template class Decoder<float>;
template class Decoder<double>;

}  // namespace qkv::model
