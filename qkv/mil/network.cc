#include "qkv/mil/network.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "qkv/attention/attention.h"
#include "qkv/core/hash.h"
#include "qkv/core/memory.h"
#include "qkv/core/rng.h"
#include "qkv/core/work.h"
#include "qkv/nn/ranges.h"
#include "qkv/nn/training/dropout.h"
#include "qkv/nn/training/norm.h"
#include "qkv/nn/training/token_rows.h"
#include "qkv/simd/rows/elementwise.h"

namespace qkv::mil {
namespace {

// The pool's random masks are others than those of h and of the blocks.
constexpr uint64_t kEmbedStream = 0x6d11, kPoolStream = 0x6d12;

const MilConfig& ValidatedMil(const MilConfig& config) {
  Validate(config);
  return config;
}

// Blocks, norm and head as a sequence model's, whose embedding is left out.
model::SequenceConfig BlocksAsSequence(const MilConfig& c) {
  model::SequenceConfig sequence;
  sequence.vocabulary = sequence.outputs = std::max<int64_t>(2, c.outputs());
  sequence.length = 1;
  sequence.block = c.block;
  sequence.depth = c.depth;
  sequence.positions = model::SequencePositions::kNone;
  return sequence;
}

train::ParameterLayout JoinMilLayout(const MilConfig& c, const std::optional<train::NetworkParameters>& blocks) {
  std::vector<model::TensorSpec> table = MilTable(c);
  if (blocks) {
    for (const train::Slot& slot : blocks->layout().slots()) table.push_back({slot.name, slot.shape, slot.role});
  }
  return train::ParameterLayout(table);
}

std::optional<train::NetworkParameters> MakeBlocks(const MilConfig& c) {
  if (c.architecture == Architecture::kGated) return {};
  return train::NetworkParameters::WithoutEmbedding(BlocksAsSequence(c));
}

// Adds sines and cosines of row and column, a quarter of the features each, to x. x: [N, D]
template <typename T>
void AddSines(View<const double> places, double base, View<T> x) {
  const int64_t D = x.dim(1), quarter = D / 4;
  std::vector<double> frequencies(static_cast<size_t>(quarter));
  for (int64_t i = 0; i < quarter; ++i) {
    frequencies[static_cast<size_t>(i)] = std::pow(base, -static_cast<double>(i) / static_cast<double>(quarter));
  }
  nn::ForRowRanges(x.dim(0), 8 * D, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t axis = 0; axis < 2; ++axis) {
        T* const to = x.row(row) + 2 * axis * quarter;
        for (int64_t i = 0; i < quarter; ++i) {
          const double angle = *places.at(row, axis) * frequencies[static_cast<size_t>(i)];
          to[i] += static_cast<T>(std::sin(angle)), to[quarter + i] += static_cast<T>(std::cos(angle));
        }
      }
    }
  });
}

nn::RotaryTable MakeTileRotary(View<const double> places, int64_t prefix, int64_t E, double base) {
  nn::RotaryAngles angles;
  angles.coordinates = Tensor<double>({prefix + places.dim(0), 2});
  std::copy_n(places.data(), places.size(), angles.coordinates.data() + 2 * prefix);
  angles.frequencies = Tensor<double>({2, E / 4});
  for (int64_t i = 0; i < E / 4; ++i) {
    const double frequency = std::pow(base, -4.0 * static_cast<double>(i) / static_cast<double>(E));
    angles.frequencies[i] = angles.frequencies[E / 4 + i] = frequency;
  }
  return nn::RotaryTable(angles);
}

template <typename T>
Tensor<float> ToFloat(View<const T> from, const Shape& shape) {
  Tensor<float> to = Tensor<float>::Uninitialised(shape);
  for (int64_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(from.data()[i]);
  return to;
}

nn::Dropout MakeDropout(const train::NetworkOptions& options, uint64_t stream) {
  return {options.dropout, MixSeed(MixSeed(options.seed, stream), static_cast<uint64_t>(options.first_image)), 0};
}

}  // namespace

Tensor<double> TilePlaces(std::span<const std::array<int64_t, 2>> coords, int64_t side) {
  Require(side > 0, "mil: a tile is {} pixels wide at level 0, expected 1 at least; positions need it", side);
  Tensor<double> places({static_cast<int64_t>(coords.size()), 2});
  std::array<double, 2> least = {std::numeric_limits<double>::max(), std::numeric_limits<double>::max()};
  for (const auto& [x, y] : coords) {
    least = {std::min(least[0], static_cast<double>(x)), std::min(least[1], static_cast<double>(y))};
  }
  for (size_t i = 0; i < coords.size(); ++i) {
    places[static_cast<int64_t>(2 * i)] = (static_cast<double>(coords[i][1]) - least[1]) / static_cast<double>(side);
    places[static_cast<int64_t>(2 * i + 1)] =
        (static_cast<double>(coords[i][0]) - least[0]) / static_cast<double>(side);
  }
  return places;
}

template <typename T>
MilNetwork<T>::MilNetwork(const MilConfig& config)
    : config_(ValidatedMil(config)), blocks_(MakeBlocks(config)), layout_(JoinMilLayout(config, blocks_)) {
  if (!blocks_) return;
  sequence_ = BlocksAsSequence(config);
  blocks_begin_ = layout_.size() - blocks_->layout().size();
}

template <typename T>
template <typename U>
View<U> MilNetwork<T>::OfBlocks(View<U> buffer) const {
  return buffer.slice(0, blocks_begin_, layout_.size());
}

template <typename T>
template <typename U>
nn::LinearParameters<U> MilNetwork<T>::LinearAt(const char* of_gated, const char* of_transformer,
                                                View<U> buffer) const {
  const std::string prefix = config_.architecture == Architecture::kGated ? of_gated : of_transformer;
  return {layout_.At(prefix + "weight", buffer), layout_.At(prefix + "bias", buffer)};
}

template <typename T>
template <typename U>
GatedPoolParameters<U> MilNetwork<T>::PoolParameters(View<U> buffer) const {
  return {LinearAt("attention_net.3.attention_a.0.", "pool.attention_a.0.", buffer),
          LinearAt("attention_net.3.attention_b.0.", "pool.attention_b.0.", buffer),
          LinearAt("attention_net.3.attention_c.", "pool.attention_c.", buffer)};
}

template <typename T>
void MilNetwork<T>::Initialise(uint64_t seed, View<T> weights) const {
  Require(weights.size() == layout_.size(), "mil: {} weights, expected {}", weights.size(), layout_.size());
  std::fill_n(weights.data(), weights.size(), T{0});
  if (blocks_) {
    train::Initialise<T>(sequence_, blocks_->layout(), {.seed = seed}, OfBlocks(weights));
  }
  for (const model::TensorSpec& spec : MilTable(config_)) {
    if (spec.role == model::Role::kBias) continue;
    Rng rng(MixSeed(seed, Fnv1a().Add(spec.name).value()));
    const View<T> tensor = layout_.At(spec.name, weights);
    const double bound = 1 / std::sqrt(static_cast<double>(spec.shape[1]));
    for (int64_t i = 0; i < tensor.size(); ++i) tensor.data()[i] = static_cast<T>(bound * (2 * rng.Uniform() - 1));
  }
}

template <typename T>
void MilNetwork<T>::CheckInput(const BagInput<T>& input) const {
  Require(input.features.rank() == 2 && input.features.dense() && input.features.dim(0) > 0 &&
              input.features.dim(1) == config_.inputs,
          "mil: features are {}, expected [tiles, {}], dense, of one tile at least", input.features.shape(),
          config_.inputs);
  Require(config_.positions == TilePositions::kNone ||
              (input.places.rank() == 2 && input.places.shape() == Shape({input.features.dim(0), 2})),
          "mil: the model uses positions of tiles, and the bag has none; expected coordinates of {} tiles",
          input.features.dim(0));
}

template <typename T>
nn::BlockSettings MilNetwork<T>::Settings(const Options& options, const Workspace& w) const {
  nn::BlockSettings settings = train::MakeBlockSettings(config_.block, {}, options);
  settings.attention.rotary = w.rotary_ ? &*w.rotary_ : nullptr;
  return settings;
}

template <typename T>
void MilNetwork<T>::Embed(View<const T> weights, const BagInput<T>& input, Workspace& w, View<T> tokens) const {
  const int64_t prefix = config_.prefix();
  const View<T> tiles = tokens.slice(0, prefix, tokens.dim(0));
  nn::LinearForward<T>(input.features, LinearAt("attention_net.0.", "embed.", weights), tiles);
  if (config_.architecture == Architecture::kGated) {
    nn::ForRowRanges(tiles.dim(0), tiles.dim(1), [&](int64_t begin, int64_t end) {
      T* const x = tiles.row(begin);
      simd::Activate<T>(simd::Activation::kRelu, x, x, (end - begin) * tiles.dim(1));
    });
    if (w.options_.dropout > 0) nn::ApplyDropout<T>(MakeDropout(w.options_, kEmbedStream), tiles);
  }
  if (config_.positions == TilePositions::kSines) AddSines<T>(input.places, config_.rotary_base, tiles);
  if (prefix > 0) std::copy_n(layout_.At("cls_token", weights).data(), tokens.dim(1), tokens.row(0));
  w.rotary_.reset();
  if (config_.positions != TilePositions::kRotary) return;
  w.rotary_.emplace(MakeTileRotary(input.places, prefix, config_.block.attention.score_width(), config_.rotary_base));
}

// last: [rows, D], output of the blocks.
template <typename T>
void MilNetwork<T>::Pool(View<const T> weights, View<const T> last, Workspace& w, View<T> logits) const {
  View<const T> h = last;
  nn::LinearParameters<const T> head;
  if (blocks_) {
    const auto output = blocks_->Output(OfBlocks(weights));
    w.normed_ = w.arena_.template New<T>(last.shape()), w.moments_ = w.arena_.template New<T>({last.dim(0), 2});
    nn::NormForward<T>(last, output.norm, w.normed_, w.moments_);
    h = w.normed_;
    head = output.head;
  } else {
    head = LinearAt("classifiers.", "", weights);
  }
  if (config_.pool == BagPool::kToken) {
    w.pooled_ = w.normed_;
  } else {
    w.pooled_ = w.arena_.template New<T>({1, h.dim(1)});
    GatedPoolForward<T>(h, PoolParameters(weights), MakeDropout(w.options_, kPoolStream), w.pooled_, w.pool_, w.arena_);
  }
  nn::LinearForward<T>(w.pooled_, head, logits);
}

template <typename T>
void MilNetwork<T>::Forward(View<const T> weights, const BagInput<T>& input, const Options& options, Workspace& w,
                            View<T> logits) const {
  w.input_ = {};
  CheckInput(input);
  Require(logits.shape() == Shape({1, config_.outputs()}) && logits.dense(), "mil: logits are {}, expected [1, {}]",
          logits.shape(), config_.outputs());
  const int64_t R = config_.prefix() + input.features.dim(0), D = config_.width();
  w.arena_.Reset();
  w.options_ = options;
  View<const T> last;
  if (blocks_) {
    w.blocks_.Begin(config_.depth, 1, R, config_.prefix() > 0 ? 1 : R, D, w.arena_);
    w.tokens_ = w.blocks_.input()[0];
    Embed(weights, input, w, w.tokens_);
    train::BlocksForward<T>(*blocks_, OfBlocks(weights), Settings(options, w), options, w.blocks_, w.arena_);
    last = w.blocks_.output()[0];
  } else {
    w.tokens_ = w.arena_.template New<T>({R, D});
    Embed(weights, input, w, w.tokens_);
    last = w.tokens_;
  }
  Pool(weights, last, w, logits);
  w.input_ = input;
}

template <typename T>
void MilNetwork<T>::Backward(View<const T> weights, View<const T> dlogits, Workspace& w, View<T> gradients) const {
  Require(!w.input_.features.empty(), "mil: a backward pass without a forward pass before it");
  const BagInput<T> input = w.input_;
  w.input_ = {};
  const Arena::Scope scope(w.arena_);
  const int64_t R = config_.prefix() + input.features.dim(0), D = config_.width();
  const View<T> dpooled = w.arena_.template New<T>({1, D}), dtokens = w.arena_.template New<T>({R, D});
  const int64_t rows = config_.pool == BagPool::kToken ? 1 : R;
  const View<T> dlast = dtokens.slice(0, 0, rows);
  const auto pool_backward = [&](View<const T> h) {
    if (config_.pool == BagPool::kToken) return nn::CopyRows<T>(dpooled, dlast);
    GatedPoolBackward<T>(h, PoolParameters(weights), MakeDropout(w.options_, kPoolStream), w.pool_, dpooled, dlast,
                         PoolParameters(gradients), w.arena_);
  };
  if (blocks_) {
    const auto p = blocks_->Output(OfBlocks(weights));
    const auto d = blocks_->Output(OfBlocks(gradients));
    nn::LinearBackward<T>(w.pooled_, p.head, dlogits, dpooled, false, d.head);
    pool_backward(w.normed_);
    nn::NormBackward<T>(w.blocks_.output()[0], w.moments_, p.norm, dlast, dlast, false, d.norm);
    train::BlocksBackward<T>(*blocks_, OfBlocks(weights), Settings(w.options_, w), w.options_, w.blocks_,
                             dtokens.reshape({1, R, D}), OfBlocks(gradients), {}, w.arena_);
  } else {
    nn::LinearBackward<T>(w.pooled_, LinearAt("classifiers.", "", weights), dlogits, dpooled, false,
                          LinearAt("classifiers.", "", gradients));
    pool_backward(w.tokens_);
  }
  const View<T> dtiles = dtokens.slice(0, config_.prefix(), R);
  if (config_.prefix() > 0) {
    T* const token = layout_.At("cls_token", gradients).data();
    for (int64_t f = 0; f < D; ++f) token[f] += dtokens.data()[f];
  }
  if (config_.architecture == Architecture::kGated) {
    if (w.options_.dropout > 0) nn::ApplyDropout<T>(MakeDropout(w.options_, kEmbedStream), dtiles);
    nn::ForRowRanges(R, D, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * D; i < end * D; ++i) {
        if (w.tokens_.data()[i] <= 0) dtiles.data()[i] = 0;  // of relu, or dropped
      }
    });
  }
  nn::LinearBackward<T>(input.features, LinearAt("attention_net.0.", "embed.", weights), dtiles, {}, false,
                        LinearAt("attention_net.0.", "embed.", gradients));
}

// The class token's scores and weights of the tiles in the last block. It is the only query.
template <typename T>
void MilNetwork<T>::ReadTokenScores(const nn::BlockCache<T>& block, int64_t N, Answer* answer) const {
  const nn::AttentionCache<T>& cache = block.attention;
  const nn::AttentionConfig& c = config_.block.attention;
  const int64_t H = c.heads, e = cache.query.dim(3) / c.maps();
  const double scale = 1 / std::sqrt(static_cast<double>(c.head_width / c.maps()));
  answer->scores = Tensor<float>({H, N}), answer->weights = Tensor<float>({H, N});
  for (int64_t h = 0; h < H; ++h) {
    const int64_t of_keys = h * c.kv_heads() / H;
    for (int64_t tile = 0; tile < N; ++tile) {
      double scores[2] = {}, weight = 0;
      for (int64_t map = 0; map < c.maps(); ++map) {
        const T *const q = cache.query.at(0, h, 0) + map * e, *const k = cache.key.at(0, of_keys, 1 + tile) + map * e;
        for (int64_t f = 0; f < e; ++f) scores[map] += static_cast<double>(q[f]) * static_cast<double>(k[f]);
        const double share = std::exp(scale * scores[map] - static_cast<double>(*cache.lse[map].at(0, h, 0)));
        weight += map == 0 ? share : -cache.difference.lambda * share;
      }
      answer->weights[h * N + tile] = static_cast<float>(weight);
      answer->scores[h * N + tile] = static_cast<float>(c.maps() == 1 ? scale * scores[0] : weight);
    }
  }
}

template <typename T>
Answer MilNetwork<T>::Infer(View<const T> weights, const BagInput<T>& input, Workspace& w) const {
  Require(blocks_.has_value(), "mil: abmil is answered by GatedHead");
  CheckInput(input);
  w.input_ = {};
  w.options_ = {};
  w.arena_.Reset();
  const int64_t N = input.features.dim(0), R = config_.prefix() + N, D = config_.width();
  // The two ends of a block, and within it about what training keeps of one.
  RequireMemory(TrainingBytes(N, true), "mil: the tiles of a bag in a Transformer");
  View<T> x = w.arena_.template New<T>({1, R, D}), y = w.arena_.template New<T>({1, R, D});
  const View<T> normed = w.arena_.template New<T>({R, D});
  Embed(weights, input, w, x[0]);
  nn::BlockSettings settings = Settings(w.options_, w);
  Answer answer;
  for (int64_t block = 0; block < config_.depth; ++block) {
    CheckCancelled();
    const Arena::Scope scope(w.arena_);
    const bool last = block == config_.depth - 1;
    const int64_t rows = last && config_.prefix() > 0 ? 1 : R;
    settings.attention.block = block;
    nn::BlockCache<T> cache;
    const View<T> to(y.data(), {1, rows, D});
    nn::BlockForward<T>(x, rows, blocks_->Block(block, OfBlocks(weights)), settings, to, normed, cache, w.arena_);
    if (rows < R) ReadTokenScores(cache, N, &answer);
    std::swap(x, y);
    if (rows < R) x = View<T>(x.data(), {1, rows, D});
  }
  const View<T> logits = w.arena_.template New<T>({1, config_.outputs()});
  Pool(weights, x[0], w, logits);
  if (config_.pool == BagPool::kGated) {
    answer.scores = ToFloat<T>(w.pool_.scores, {1, N});
    answer.weights = ToFloat<T>(w.pool_.weights, {1, N});
  }
  answer.vector = ToFloat<T>(w.pooled_, {D});
  answer.logits = ToFloat<T>(logits, {config_.outputs()});
  return answer;
}

template <typename T>
double MilNetwork<T>::TrainingBytes(int64_t tiles, bool checkpointing) const {
  const auto n = static_cast<double>(tiles + config_.prefix()), D = static_cast<double>(config_.width());
  const nn::AttentionConfig& a = config_.block.attention;
  // Of a block: queries, keys and values with their rotated copies and gradients, sums, the MLP's hidden features
  // twice.
  const double queries = static_cast<double>(a.heads) *
                         (a.kind == nn::AttentionKind::kMerged ? D : static_cast<double>(2 * a.query_width()));
  const double block = 2 * (2 * queries + 4 * D + static_cast<double>(config_.block.mlp.width));
  const double kept = checkpointing ? block : block * static_cast<double>(config_.depth);
  const double around = static_cast<double>(config_.depth + 6) * D + 6 * static_cast<double>(config_.gate_width);
  return sizeof(T) * n * (kept * (config_.depth > 0 ? 1 : 0) + around);
}

template class MilNetwork<float>;
template class MilNetwork<double>;

}  // namespace qkv::mil
