#include "qkv/train/network/pair_network.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "qkv/core/rng.h"
#include "qkv/model/layout/positions.h"
#include "qkv/model/layout/tensor_table.h"
#include "qkv/nn/ranges.h"
#include "qkv/nn/training/linear.h"
#include "qkv/nn/training/norm.h"

namespace qkv::train {
namespace {

using model::SequenceConfig;

// The decoder's random numbers are others than the encoder's.
constexpr uint64_t kDecoderStream = 0xdec0de;

template <typename T>
View<T> PairRows(View<T> tokens) {
  return tokens.reshape({tokens.dim(0) * tokens.dim(1), tokens.dim(2)});
}

// x[row] = scale · token vector + position, if any. tokens: [B, N]; places: [length, D] or empty.
template <typename T>
void EmbedTokens(View<const int32_t> tokens, View<const T> vectors, double scale, View<const T> places, View<T> x) {
  const int64_t N = tokens.dim(1), D = x.dim(1);
  const T factor = static_cast<T>(scale);
  nn::ForRowRanges(x.dim(0), D, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* const vector = vectors.row(tokens.at(row / N)[row % N]);
      const T* const place = places.empty() ? nullptr : places.row(row % N);
      T* const to = x.row(row);
      for (int64_t d = 0; d < D; ++d) to[d] = place ? factor * vector[d] + place[d] : factor * vector[d];
    }
  });
}

// Adds scale · dx to the vectors of the tokens that count. Parallel over columns: a token may occur many times.
template <typename T>
void EmbedTokensBackward(View<const int32_t> tokens, View<const int64_t> lengths, double scale, View<const T> dx,
                         View<T> dvectors) {
  const int64_t N = tokens.dim(1), D = dx.dim(1);
  const T factor = static_cast<T>(scale);
  nn::ForColumnRanges(D, dx.dim(0), [&](int64_t begin, int64_t end) {
    for (int64_t b = 0; b < tokens.dim(0); ++b) {
      for (int64_t n = 0; n < lengths.data()[b]; ++n) {
        const T* const from = dx.row(b * N + n);
        T* const vector = dvectors.row(tokens.at(b)[n]);
        for (int64_t d = begin; d < end; ++d) vector[d] += factor * from[d];
      }
    }
  });
}

void ValidatePart(const SequenceConfig& c, const char* part) {
  model::Validate(c);
  const bool computed = c.positions == model::SequencePositions::kSinusoidalHalves ||
                        c.positions == model::SequencePositions::kSinusoidal ||
                        c.positions == model::SequencePositions::kNone;
  Require(computed && c.token_types == 0 && c.pooler_width == 0 && !c.embedding_norm && c.position_offset == 0 &&
              c.pool == model::TokenPool::kNone && c.head_scale == 1,
          "pair network: the {} has token types, a pooler, learned, rotary or relative positions, a norm of its "
          "embeddings or scaled logits; expected sinusoidal positions or none, and nothing of the rest",
          part);
  Require(c.depth > 0, "pair network: the {} has no blocks", part);
}

// Both layouts in one: the decoder's slots begin after the last of the encoder's.
ParameterLayout JoinLayouts(const NetworkParameters& encoder, const NetworkParameters& decoder) {
  std::vector<model::TensorSpec> table;
  for (const Slot& slot : encoder.layout().slots()) {
    const bool shared = slot.name == "token_embed.weight";
    table.push_back({shared ? slot.name : "encoder." + slot.name, slot.shape, slot.role});
  }
  for (const Slot& slot : decoder.layout().slots()) table.push_back({"decoder." + slot.name, slot.shape, slot.role});
  return ParameterLayout(table);
}

const PairConfig& ValidatedPair(const PairConfig& config) {
  Validate(config);
  return config;
}

void RequireLengths(View<const int64_t> lengths, int64_t B, int64_t most, const char* what) {
  Require(lengths.rank() == 1 && lengths.dim(0) == B && lengths.dense(), "pair network: lengths of the {} are {}", what,
          lengths.shape());
  for (int64_t b = 0; b < B; ++b) {
    Require(lengths.data()[b] >= 1 && lengths.data()[b] <= most, "pair network: {} {} has {} tokens, expected 1 to {}",
            what, b, lengths.data()[b], most);
  }
}

}  // namespace

void Validate(const PairConfig& config) {
  ValidatePart(config.encoder, "encoder");
  ValidatePart(config.decoder, "decoder");
  const SequenceConfig &encoder = config.encoder, &decoder = config.decoder;
  Require(!encoder.causal && !encoder.block.cross && encoder.outputs == 0,
          "pair network: an encoder sees all tokens, no source, and has no logits");
  Require(decoder.causal && decoder.block.cross && decoder.tied_head && decoder.outputs == decoder.vocabulary,
          "pair network: a decoder is causal, reads the encoder, and its head has the tokens' vectors");
  Require(encoder.vocabulary == decoder.vocabulary && encoder.block.width == decoder.block.width &&
              decoder.block.cross->source(decoder.block.width) == encoder.block.width,
          "pair network: an encoder of {} tokens and width {}, a decoder of {} and {}, expected equal ones",
          encoder.vocabulary, encoder.block.width, decoder.vocabulary, decoder.block.width);
}

template <typename T>
PairNetwork<T>::PairNetwork(const PairConfig& config)
    : config_(ValidatedPair(config)),
      encoder_(config.encoder),
      decoder_(NetworkParameters::WithoutEmbedding(config.decoder)),
      layout_(JoinLayouts(encoder_, decoder_)),
      decoder_begin_(encoder_.layout().size()),
      encoder_positions_(model::ComputedPositions<T>(config.encoder)),
      decoder_positions_(model::ComputedPositions<T>(config.decoder)) {}

template <typename T>
nn::BlockSettings PairNetwork<T>::EncoderSettings(const PairInput& input, const Options& options) const {
  nn::BlockSettings settings =
      MakeBlockSettings(config_.encoder.block, {.prefix = 0, .height = 1, .width = input.source.dim(1)}, options);
  settings.attention.key_lengths = input.source_lengths;
  return settings;
}

template <typename T>
nn::BlockSettings PairNetwork<T>::DecoderSettings(const PairInput& input, const Options& options) const {
  nn::BlockSettings settings =
      MakeBlockSettings(config_.decoder.block, {.prefix = 0, .height = 1, .width = input.target.dim(1)}, options);
  settings.attention.causal = true;
  settings.attention.key_lengths = input.target_lengths;
  settings.cross.key_lengths = input.source_lengths;
  return settings;
}

template <typename T>
void PairNetwork<T>::FinalNorm(const SequenceConfig& config, const OutputParameters<const T>& p, Part& part,
                               Arena& arena) const {
  const View<T> x = PairRows(part.blocks.output());
  part.normed = x;
  if (!config.final_norm) return;
  part.normed = arena.template New<T>(x.shape()), part.moments = arena.template New<T>({x.dim(0), 2});
  nn::NormForward<T>(x, p.norm, part.normed, part.moments);
}

namespace {

NetworkOptions DecoderOptions(const NetworkOptions& options) {
  NetworkOptions own = options;
  own.seed = MixSeed(options.seed, kDecoderStream);
  return own;
}

}  // namespace

template <typename T>
void PairNetwork<T>::Forward(View<const T> weights, const PairInput& input, const Options& options, Workspace& w,
                             View<T> logits) const {
  const SequenceConfig &e = config_.encoder, &d = config_.decoder;
  w.input_ = {};
  Require(input.source.rank() == 2 && input.source.dense() && input.source.dim(0) > 0 && input.source.dim(1) > 0 &&
              input.source.dim(1) <= e.length,
          "pair network: expected dense source tokens [B, N], N of 1 to {}, got {}", e.length, input.source.shape());
  const int64_t B = input.source.dim(0), N = input.source.dim(1), D = e.block.width;
  Require(input.target.rank() == 2 && input.target.dense() && input.target.dim(0) == B && input.target.dim(1) > 0 &&
              input.target.dim(1) <= d.length,
          "pair network: expected dense target tokens [{}, T], T of 1 to {}, got {}", B, d.length,
          input.target.shape());
  const int64_t M = input.target.dim(1);
  RequireLengths(input.source_lengths, B, N, "source");
  RequireLengths(input.target_lengths, B, M, "target");
  model::RequireTokens(e, input.source);
  model::RequireTokens(d, input.target);
  Require(weights.size() == layout_.size() && weights.dense(), "pair network: expected {} weights, got {}",
          layout_.size(), weights.size());
  Require(logits.shape() == Shape({B, M, d.outputs}) && logits.dense(),
          "pair network: logits are {}, expected [{}, {}, {}], dense", logits.shape(), B, M, d.outputs);
  Arena& arena = w.arena_;
  arena.Reset();
  w.options_ = options;
  const View<const T> of_encoder = EncoderBuffer(weights), of_decoder = DecoderBuffer(weights);
  const View<const T> table = encoder_.Embedding(of_encoder).tokens;

  w.encoder_.blocks.Begin(e.depth, B, N, N, D, arena);
  EmbedTokens<T>(input.source, table, e.embedding_scale, encoder_positions_.view(),
                 PairRows(w.encoder_.blocks.input()));
  BlocksForward<T>(encoder_, of_encoder, EncoderSettings(input, options), options, w.encoder_.blocks, arena);
  FinalNorm(e, encoder_.Output(of_encoder), w.encoder_, arena);

  w.decoder_.blocks.Begin(d.depth, B, M, M, D, arena);
  EmbedTokens<T>(input.target, table, d.embedding_scale, decoder_positions_.view(),
                 PairRows(w.decoder_.blocks.input()));
  const NetworkOptions own = DecoderOptions(options);
  BlocksForward<T>(decoder_, of_decoder, DecoderSettings(input, own), own, w.decoder_.blocks, arena,
                   w.encoder_.normed.reshape({B, N, D}));
  OutputParameters<const T> output = decoder_.Output(of_decoder);
  FinalNorm(d, output, w.decoder_, arena);
  output.head.weight = table;
  nn::LinearForward<T>(w.decoder_.normed, output.head, PairRows(logits), {}, ToPrecision(options));
  w.input_ = input;
}

template <typename T>
void PairNetwork<T>::Backward(View<const T> weights, View<const T> dlogits, Workspace& w, View<T> gradients,
                              const std::function<void(int64_t, int64_t)>& finished) const {
  const SequenceConfig &e = config_.encoder, &d = config_.decoder;
  Require(!w.input_.empty(), "pair network: a backward pass without a forward pass before it");
  const PairInput input = w.input_;
  const int64_t B = input.source.dim(0), N = input.source.dim(1), M = input.target.dim(1), D = e.block.width;
  Require(dlogits.shape() == Shape({B, M, d.outputs}) && dlogits.dense(),
          "pair network: gradients by logits are {}, expected [{}, {}, {}], dense", dlogits.shape(), B, M, d.outputs);
  Require(gradients.size() == layout_.size() && gradients.dense(), "pair network: expected {} gradients, got {}",
          layout_.size(), gradients.size());
  w.input_ = {};
  const Arena::Scope scope(w.arena_);
  const View<const T> of_encoder = EncoderBuffer(weights), of_decoder = DecoderBuffer(weights);
  const View<T> to_encoder = EncoderBuffer(gradients), to_decoder = DecoderBuffer(gradients);
  const View<const T> table = encoder_.Embedding(of_encoder).tokens;
  const View<T> dtable = encoder_.Embedding(to_encoder).tokens;
  const int64_t base = decoder_begin_;

  const View<T> dx = w.arena_.template New<T>({B, M, D}), dsource = w.arena_.template New<T>({B, N, D});
  std::fill_n(dsource.data(), dsource.size(), T{0});
  OutputParameters<const T> p = decoder_.Output(of_decoder);
  OutputParameters<T> dp = decoder_.Output(to_decoder);
  p.head.weight = table, dp.head.weight = dtable;
  nn::LinearBackward<T>(w.decoder_.normed, p.head, PairRows(dlogits), PairRows(dx), false, dp.head,
                        ToPrecision(w.options_));
  if (d.final_norm) {
    nn::NormBackward<T>(PairRows(w.decoder_.blocks.output()), w.decoder_.moments, p.norm, PairRows(dx), PairRows(dx),
                        false, dp.norm);
  }
  if (finished) finished(base + decoder_.begin(d.depth + 1), base + decoder_.begin(d.depth + 2));
  const NetworkOptions own = DecoderOptions(w.options_);
  const std::function<void(int64_t, int64_t)> of_blocks =
      finished ? [&finished, base](int64_t begin, int64_t end) { finished(base + begin, base + end); }
               : std::function<void(int64_t, int64_t)>();
  BlocksBackward<T>(decoder_, of_decoder, DecoderSettings(input, own), own, w.decoder_.blocks, dx, to_decoder,
                    of_blocks, w.arena_, w.encoder_.normed.reshape({B, N, D}), dsource);
  EmbedTokensBackward<T>(input.target, input.target_lengths, d.embedding_scale, PairRows(dx), dtable);

  if (e.final_norm) {
    nn::NormBackward<T>(PairRows(w.encoder_.blocks.output()), w.encoder_.moments, encoder_.Output(of_encoder).norm,
                        PairRows(dsource), PairRows(dsource), false, encoder_.Output(to_encoder).norm);
  }
  if (finished) finished(encoder_.begin(e.depth + 1), encoder_.begin(e.depth + 2));
  BlocksBackward<T>(encoder_, of_encoder, EncoderSettings(input, w.options_), w.options_, w.encoder_.blocks, dsource,
                    to_encoder, finished, w.arena_);
  EmbedTokensBackward<T>(input.source, input.source_lengths, e.embedding_scale, PairRows(dsource), dtable);
  if (finished) finished(encoder_.begin(0), encoder_.begin(1));
}

template <typename T>
void PairNetwork<T>::Constrain(View<T> weights) const {
  ConstrainBlocks(encoder_, EncoderBuffer(weights));
  ConstrainBlocks(decoder_, DecoderBuffer(weights));
}

template <typename T>
void PairNetwork<T>::Initialise(const Initialisation& how, View<T> weights) const {
  Require(how.scheme == Initialisation::Scheme::kTimm,
          "initialise: 'mimetic' is not defined for an encoder-decoder; expected trunc-normal");
  Initialisation own = how;
  train::Initialise<T>(config_.encoder, encoder_.layout(), own, EncoderBuffer(weights));
  // The decoder's layout has no tokens, which are set below.
  SequenceConfig decoder = config_.decoder;
  decoder.positions = model::SequencePositions::kNone;
  own.seed = MixSeed(how.seed, kDecoderStream);
  train::Initialise<T>(decoder, decoder_.layout(), own, DecoderBuffer(weights));
  // timm's deviation of 0.02, which Initialise gives all weights in proportion, is for wider models.
  constexpr double kTimm = 0.02;
  const double D = static_cast<double>(config_.encoder.block.width);
  for (const Slot& slot : layout_.slots()) {
    if (slot.role == model::Role::kBias || slot.role == model::Role::kNorm || slot.role == model::Role::kScale)
      continue;
    const bool of_encoder = slot.name.starts_with("encoder.");
    const double hidden = static_cast<double>((of_encoder ? config_.encoder : config_.decoder).block.mlp.width);
    const bool of_mlp = slot.name.find(".mlp.") != std::string::npos;
    const double deviation = of_mlp ? std::sqrt(2 / (D + hidden)) : std::sqrt(1 / D);
    double factor = deviation / kTimm;
    if (slot.name.ends_with("qk.merged")) factor *= factor;  // a product of two matrices
    const View<T> tensor = layout_.At(slot.name, weights);
    for (int64_t i = 0; i < tensor.size(); ++i) tensor.data()[i] = static_cast<T>(factor * tensor.data()[i]);
  }
}

template class PairNetwork<float>;
template class PairNetwork<double>;

}  // namespace qkv::train
