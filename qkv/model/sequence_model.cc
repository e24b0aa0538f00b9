#include "qkv/model/sequence_model.h"

#include <algorithm>

#include "qkv/core/parallel.h"
#include "qkv/model/attention_build.h"
#include "qkv/model/folder.h"
#include "qkv/model/positions.h"
#include "qkv/nn/ranges.h"

namespace qkv::model {
namespace {

// The places of all blocks' scores where these are of places alone, [depth, 2, H, length, r]; or empty.
template <typename T>
Tensor<T> PlacesOf(const VitConfig& c, const std::vector<nn::Block<T>>& blocks) {
  if (!nn::IsPositional(c.attention)) return {};
  const int64_t r = c.attention == nn::AttentionKind::kGaussian ? nn::kGaussianFeatures : c.query_width();
  auto places = Tensor<T>::Uninitialised({c.depth, 2, c.heads, c.tokens(), r});
  for (int64_t block = 0; block < c.depth; ++block) {
    const nn::AttentionLayer<T>& layer = blocks[static_cast<size_t>(block)].attention;
    if (c.attention == nn::AttentionKind::kGaussian) {
      nn::GaussianPlaces<T>(layer.bandwidth, 0, 1, c.tokens(), places.view()[block]);
    } else {
      std::copy_n(layer.places.data(), layer.places.size(), places.view().at(block));
    }
  }
  return places;
}

}  // namespace

SequenceCheckpoint SequenceCheckpoint::Open(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / kConfigFile;
  Require(std::filesystem::exists(file), "cannot open sequence model {}: there is no {}", folder.string(), kConfigFile);
  SequenceCheckpoint checkpoint;
  checkpoint.source = folder.string();
  checkpoint.config = ParseSequenceConfig(io::ReadJson(file), file.string());
  checkpoint.tensors = std::make_shared<const io::SafeTensors>(io::SafeTensors::Open(folder));
  try {
    checkpoint.bound = Bind(TensorTable(checkpoint.config), *checkpoint.tensors, "this sequence model");
  } catch (const Error& error) {
    Fail("{}: {}", folder.string(), Lines{error.what()});
  }
  return checkpoint;
}

Checkpoint BlocksOf(const SequenceCheckpoint& checkpoint) {
  Checkpoint blocks;
  blocks.source = checkpoint.source;
  blocks.description.config = BlocksOf(checkpoint.config);
  blocks.tensors = checkpoint.tensors;
  blocks.bound = checkpoint.bound;
  return blocks;
}

template <typename T>
SequenceModel<T>::SequenceModel(const SequenceConfig& config, const std::vector<BoundTensor>& tensors,
                                const BuildOptions& options)
    : config_(config) {
  Validate(config);
  const VitConfig blocks = BlocksOf(config);
  const Weights<T> weights(tensors);
  tokens_ = weights.Get("token_embed.weight");
  if (config.positions == SequencePositions::kLearned) positions_ = weights.Get("pos_embed");
  if (config.positions == SequencePositions::kSinusoidal) {
    positions_ = Tensor<T>::Uninitialised({1, config.length, config.width});
    SinCosSequence<T>(positions_.view()[0]);
  }
  BuildOptions of_blocks = options;
  if (config.positions == SequencePositions::kRotary) {
    rotary_ = std::make_unique<const nn::RotaryTable>(config.length, blocks.query_width(), config.rotary_base);
    // A key's bias is turned with the key: what it adds to a query's scores is no longer the same for all.
    of_blocks.fold_key_value_bias = false;
  }
  blocks_.resize(static_cast<size_t>(config.depth));
  ParallelTasks(config.depth, [&](int64_t block, int) {
    blocks_[static_cast<size_t>(block)] =
        BuildBlock<T>(blocks, of_blocks, weights, fmt::format("blocks.{}.", block),
                      {.kind = config.attention, .fewer_queries = config.causal && block + 1 == config.depth});
  });
  places_ = PlacesOf(blocks, blocks_);
  norm_ = weights.Norm("norm", config.eps);
  Affine<T> head = weights.Layer("head", options.precision);
  if (options.fold_norms) head.FoldNorm(&norm_);
  head_ = head.Pack();
}

template <typename T>
SequenceModel<T> SequenceModel<T>::Load(const std::filesystem::path& folder, const BuildOptions& options) {
  const SequenceCheckpoint checkpoint = SequenceCheckpoint::Open(folder);
  return SequenceModel(checkpoint.config, checkpoint.bound, options);
}

template <typename T>
View<T> SequenceModel<T>::Run(View<const int32_t> tokens, int64_t first, std::span<nn::KeyValueCache<T>> caches,
                              int64_t rows, Arena& arena) const {
  RequireTokens(config_, tokens);
  const int64_t B = tokens.dim(0), N = tokens.dim(1), D = config_.width, all = first + N;
  const View<T> x = arena.New<T>({B, N, D});
  nn::ForRowRanges(B * N, D, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* const vector = tokens_.view().row(tokens.data()[row]);
      const T* const place = positions_.empty() ? nullptr : positions_.view().at(0, first + row % N);
      T* const to = x.data() + row * D;
      for (int64_t d = 0; d < D; ++d) to[d] = place ? vector[d] + place[d] : vector[d];
    }
  });
  for (size_t block = 0; block < blocks_.size(); ++block) {
    nn::AttentionContext<T> context;
    context.causal = config_.causal;
    context.rotary = rotary_.get();
    if (!places_.empty()) context.places = places_.view()[static_cast<int64_t>(block)].slice(2, 0, all);
    if (!caches.empty()) context.cache = &caches[block];
    context.last_rows = true;
    nn::BlockForward<T>(x, blocks_[block], block + 1 == blocks_.size() ? rows : N, arena, context);
  }
  return x;
}

template <typename T>
void SequenceModel<T>::Answer(View<const T> x, Arena& arena, View<T> logits) const {
  const Shape one({1, x.dim(0), x.dim(1)});
  const View<const T> rows(x.data(), one, {x.dim(0) * x.stride(0), x.stride(0), 1});
  const nn::Input<T> normed = nn::Normalised<T>(rows, norm_, arena);
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
  const View<T> x = Run(tokens, 0, {}, N, arena);
  Answer(x.reshape({B * N, config_.width}), arena, logits.reshape({B * N, outputs}));
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
Decoder<T>::Decoder(const SequenceModel<T>& model) : model_(model) {
  const SequenceConfig& c = model.config();
  Require(c.causal, "decoder: the model is not causal: what a token is answered depends on those that follow");
  for (const nn::Block<T>& block : model.blocks_) {
    caches_.emplace_back(block.attention, 1, c.width, c.length, model.rotary_ != nullptr);
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
  const View<T> x = model_.Run(View<const int32_t>(tokens.data(), {1, N}), first, caches_, 1, arena_);
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  model_.Answer(x[0].slice(0, N - 1, N), arena_, logits_);
  return logits_.span();
}

template class SequenceModel<float>;
template class SequenceModel<double>;
template class Decoder<float>;
template class Decoder<double>;

}  // namespace qkv::model
