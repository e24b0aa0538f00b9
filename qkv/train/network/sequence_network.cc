#include "qkv/train/network/sequence_network.h"

#include <algorithm>

#include "qkv/model/layout/positions.h"
#include "qkv/nn/ranges.h"

namespace qkv::train {
namespace {

// Reshapes [B, N, D] to [B·N, D].
template <typename T>
View<T> Rows(View<T> tokens) {
  return tokens.reshape({tokens.dim(0) * tokens.dim(1), tokens.dim(2)});
}

// x[row] = token embedding + position embedding, if any. tokens: [B, N]; places: [length, D] or empty.
template <typename T>
void Embed(View<const int32_t> tokens, View<const T> vectors, View<const T> places, View<T> x) {
  const int64_t N = tokens.dim(1), D = x.dim(1);
  nn::ForRowRanges(x.dim(0), D, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* const vector = vectors.row(tokens.data()[row]);
      const T* const place = places.empty() ? nullptr : places.row(row % N);
      T* const to = x.row(row);
      for (int64_t d = 0; d < D; ++d) to[d] = place ? vector[d] + place[d] : vector[d];
    }
  });
}

// Parallel over columns: a token may occur many times.
template <typename T>
void EmbedBackward(View<const int32_t> tokens, View<const T> dx, View<T> dvectors, View<T> dplaces) {
  const int64_t R = dx.dim(0), N = tokens.dim(1), D = dx.dim(1);
  nn::ForColumnRanges(D, R, [&](int64_t begin, int64_t end) {
    for (int64_t row = 0; row < R; ++row) {
      const T* const from = dx.row(row);
      T* const vector = dvectors.row(tokens.data()[row]);
      for (int64_t d = begin; d < end; ++d) vector[d] += from[d];
      if (dplaces.empty()) continue;
      T* const place = dplaces.row(row % N);
      for (int64_t d = begin; d < end; ++d) place[d] += from[d];
    }
  });
}

}  // namespace

template <typename T>
SequenceNetwork<T>::SequenceNetwork(const model::SequenceConfig& config) : config_(config), parameters_(config) {
  Require(config.pool == model::TokenPool::kNone,
          "network: a sequence model that pools one token (\"pool\": \"{}\") cannot be trained; expected an output for "
          "every token",
          Name(config.pool));
  Require(
      config.outputs > 0 && !config.tied_head && !config.block.cross && config.token_types == 0 &&
          config.pooler_width == 0 && !config.embedding_norm && config.embedding_scale == 1 &&
          config.position_offset == 0 && config.positions != model::SequencePositions::kRelative,
      "network: training has no token types, pooler, scaled or normed embeddings, tied heads, relative positions or "
      "cross-attention");
  positions_ = model::ComputedPositions<T>(config);
  if (config.positions == model::SequencePositions::kRotary) {
    rotary_.emplace(config.length, config.block.attention.score_width(), config.rotary_base, config.rotary_scaling);
  }
}

template <typename T>
nn::BlockSettings SequenceNetwork<T>::Settings(int64_t N, const Options& options) const {
  nn::BlockSettings settings = MakeBlockSettings(config_.block, {.prefix = 0, .height = 1, .width = N}, options);
  settings.attention.causal = config_.causal;
  settings.attention.rotary = rotary_ ? &*rotary_ : nullptr;
  return settings;
}

template <typename T>
void SequenceNetwork<T>::Forward(View<const T> weights, View<const int32_t> tokens, const Options& options,
                                 Workspace& w, View<T> logits) const {
  const model::SequenceConfig& c = config_;
  w.tokens_ = {};
  Require(tokens.rank() == 2 && tokens.dense() && tokens.dim(0) > 0 && tokens.dim(1) > 0 && tokens.dim(1) <= c.length,
          "sequence network: expected dense tokens [B, N], N of 1 to {}, got {}", c.length, tokens.shape());
  model::RequireTokens(c, tokens);
  const int64_t B = tokens.dim(0), N = tokens.dim(1), D = c.block.width;
  Require(logits.shape() == Shape({B, N, c.outputs}) && logits.dense(),
          "sequence network: logits are {}, expected [{}, {}, {}], dense", logits.shape(), B, N, c.outputs);
  Arena& arena = w.arena_;
  arena.Reset();
  w.options_ = options;
  w.blocks_.Begin(c.depth, B, N, N, D, arena);
  const EmbeddingParameters<const T> embedding = parameters_.Embedding(weights);
  Embed<T>(tokens, embedding.tokens, embedding.positions.empty() ? positions_.view() : embedding.positions[0],
           Rows(w.blocks_.input()));
  BlocksForward<T>(parameters_, weights, Settings(N, options), options, w.blocks_, arena);
  const OutputParameters<const T> output = parameters_.Output(weights);
  w.normed_ = Rows(w.blocks_.output());
  if (c.final_norm) {
    w.normed_ = arena.template New<T>({B * N, D}), w.moments_ = arena.template New<T>({B * N, 2});
    nn::NormForward<T>(Rows(w.blocks_.output()), output.norm, w.normed_, w.moments_);
  }
  nn::LinearForward<T>(w.normed_, output.head, Rows(logits), {}, ToPrecision(options));
  w.tokens_ = tokens;
}

template <typename T>
void SequenceNetwork<T>::Backward(View<const T> weights, View<const T> dlogits, Workspace& w, View<T> gradients,
                                  const std::function<void(int64_t, int64_t)>& finished) const {
  const model::SequenceConfig& c = config_;
  Require(!w.tokens_.empty(), "sequence network: a backward pass without a forward pass before it");
  const View<const int32_t> tokens = w.tokens_;
  const int64_t B = tokens.dim(0), N = tokens.dim(1), D = c.block.width;
  Require(dlogits.shape() == Shape({B, N, c.outputs}) && dlogits.dense(),
          "sequence network: gradients by logits are {}, expected [{}, {}, {}], dense", dlogits.shape(), B, N,
          c.outputs);
  w.tokens_ = {};
  const Arena::Scope scope(w.arena_);
  const View<T> dx = w.arena_.template New<T>({B, N, D});
  const OutputParameters<const T> p = parameters_.Output(weights);
  const OutputParameters<T> d = parameters_.Output(gradients);
  nn::LinearBackward<T>(w.normed_, p.head, Rows(dlogits), Rows(dx), false, d.head, ToPrecision(w.options_));
  if (c.final_norm) {
    nn::NormBackward<T>(Rows(w.blocks_.output()), w.moments_, p.norm, Rows(dx), Rows(dx), false, d.norm);
  }
  if (finished) finished(parameters_.begin(c.depth + 1), parameters_.begin(c.depth + 2));
  BlocksBackward<T>(parameters_, weights, Settings(N, w.options_), w.options_, w.blocks_, dx, gradients, finished,
                    w.arena_);
  const EmbeddingParameters<T> embedding = parameters_.Embedding(gradients);
  EmbedBackward<T>(tokens, Rows(dx), embedding.tokens,
                   embedding.positions.empty() ? View<T>() : embedding.positions[0]);
  if (finished) finished(parameters_.begin(0), parameters_.begin(1));
}

template <typename T>
void SequenceNetwork<T>::Constrain(View<T> weights) const {
  ConstrainBlocks(parameters_, weights);
}

template class SequenceNetwork<float>;
template class SequenceNetwork<double>;

}  // namespace qkv::train
