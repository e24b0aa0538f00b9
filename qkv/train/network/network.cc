#include "qkv/train/network/network.h"

#include <algorithm>

#include "qkv/core/parallel.h"
#include "qkv/model/blocks/attention_orders.h"
#include "qkv/model/layout/positions.h"
#include "qkv/nn/pool.h"
#include "qkv/nn/training/token_rows.h"
#include "qkv/simd/rows/elementwise_backward.h"

namespace qkv::train {
namespace {

nn::PatchEmbedSettings MakePatchEmbedSettings(const model::VitConfig& c) {
  return {.patch_height = c.patch_height, .patch_width = c.patch_width, .channel_last = c.patch_norms};
}

nn::AttentionPoolSettings MakePoolSettings(const model::VitConfig& c, const NetworkOptions& options) {
  return {.heads = c.pool_heads(),
          .mlp = {.config = {.activation = c.block.mlp.activation}, .precision = ToPrecision(options)}};
}

// Token `index` of each image: [B, D]. tokens: [B, N, D]
template <typename T>
View<T> SelectToken(View<T> tokens, int64_t index) {
  return View<T>(tokens.at(0, index), {tokens.dim(0), tokens.dim(2)}, {tokens.stride(0), 1});
}

// Reshapes [B, n, D] to [B·n, D].
template <typename T>
View<T> Rows(View<T> tokens) {
  return tokens.reshape({tokens.dim(0) * tokens.dim(1), tokens.dim(2)});
}

// y = factor · x, or += where gradients accumulate. [R, C] with strided rows.
template <typename T>
void Scale(View<const T> x, T factor, View<T> y, bool add = false) {
  for (int64_t row = 0; row < x.dim(0); ++row) {
    for (int64_t c = 0; c < x.dim(1); ++c) {
      const T scaled = factor * x.row(row)[c];
      y.row(row)[c] = add ? y.row(row)[c] + scaled : scaled;
    }
  }
}

template <typename T>
View<T> Normed(View<const T> x, const nn::NormParameters<const T>& p, View<T>* moments, Arena& arena) {
  const View<T> normed = arena.New<T>(x.shape());
  *moments = arena.New<T>({x.dim(0), 2});
  nn::NormForward<T>(x, p, normed, *moments);
  return normed;
}

// Gradient with respect to x of a norm over few rows.
template <typename T>
View<const T> NormGradient(View<const T> x, View<const T> moments, const nn::NormParameters<const T>& p,
                           View<const T> dy, const nn::NormParameters<T>& d, Arena& arena) {
  const View<T> dx = arena.New<T>(x.shape());
  nn::NormBackward<T>(x, moments, p, dy, dx, false, d);
  return dx;
}

}  // namespace

template <typename T>
Network<T>::Network(const model::VitConfig& config) : config_(config), parameters_(config) {
  const std::string only = model::OnlyInInference(config);
  Require(only.empty(), "train: {} is not trained: {}; start from another model", config.architecture, only);
  if (config.rotary != model::PatchRotary::kNone) {
    rotary_.emplace(model::MakeRotaryTable(config, config.grid_height(), config.grid_width()));
  }
  if (config.positions != model::Positions::kSinCos) return;
  positions_ = Tensor<T>::Uninitialised({config.patches(), config.block.width});
  model::SinCosGrid<T>(config.grid_height(), config.grid_width(), positions_);
}

// Number of leading tokens that the head reads; after the last block, the other tokens are not needed.
template <typename T>
int64_t Network<T>::RowsRead(const Options& options) const {
  const model::VitConfig& c = config();
  return c.depth > 0 && !options.all_rows ? model::RowsPooled(c, c.depth - 1, c.tokens()) : c.tokens();
}

// x: [B, N, D]
template <typename T>
void Network<T>::Embed(View<const T> weights, View<const T> pixels, Workspace& w, View<T> x) const {
  const model::VitConfig& c = config();
  const EmbeddingParameters<const T> p = parameters_.Embedding(weights);
  const int64_t B = x.dim(0), P = c.patches(), D = c.block.width, prefix = c.prefix();
  // Positions of the prefix tokens that have one, and of the patches.
  const int64_t positioned = p.positions.empty() ? 0 : c.position_prefix;
  const T* const of_patches =
      p.positions.empty() ? positions_.data() : p.positions.data() + positioned * D;  // [P, D], or null
  w.embedded_ = c.pre_norm ? w.arena_.template New<T>(x.shape()) : x;
  nn::PatchEmbedForward<T>(pixels, p.patch_embed, MakePatchEmbedSettings(c), w.embedded_.slice(1, prefix, prefix + P),
                           w.patch_embed_, w.arena_);
  ParallelFor(B, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      T* to = w.embedded_.at(b);
      for (const View<const T>& token : p.prefix) {
        if (!token.empty()) to = std::copy_n(token.data(), token.size(), to);
      }
      T* const first = w.embedded_.at(b);
      for (int64_t i = 0; i < positioned * D; ++i) first[i] += p.positions.data()[i];
      for (int64_t i = 0; of_patches && i < P * D; ++i) to[i] += of_patches[i];
    }
  });
  if (!c.pre_norm) return;
  w.embedded_moments_ = w.arena_.template New<T>({B * (prefix + P), 2});
  nn::NormForward<T>(Rows(w.embedded_), p.norm_pre, Rows(x), w.embedded_moments_);
}

// dx: [B, N, D], overwritten.
template <typename T>
void Network<T>::EmbedBackward(View<const T> weights, Workspace& w, View<T> dx, View<T> gradients) const {
  const model::VitConfig& c = config();
  const EmbeddingParameters<const T> p = parameters_.Embedding(weights);
  const EmbeddingParameters<T> d = parameters_.Embedding(gradients);
  const int64_t B = dx.dim(0), N = dx.dim(1), P = c.patches(), D = c.block.width, prefix = c.prefix();
  if (c.pre_norm) {
    nn::NormBackward<T>(Rows(w.embedded_), w.embedded_moments_, p.norm_pre, Rows(dx), Rows(dx), false, d.norm_pre);
  }
  // The tokens and positions are shared by all images, so their gradients sum over the batch.
  const auto add_images = [&](int64_t begin, int64_t tokens, T* to) {
    nn::ForColumnRanges(tokens * D, B, [&](int64_t from, int64_t end) {
      for (int64_t b = 0; b < B; ++b) {
        const T* image = dx.at(b, begin);
        for (int64_t i = from; i < end; ++i) to[i] += image[i];
      }
    });
  };
  int64_t token = 0;
  for (const View<T>& tokens : d.prefix) {
    if (tokens.empty()) continue;
    add_images(token, tokens.size() / D, tokens.data());
    token += tokens.size() / D;
  }
  if (!d.positions.empty()) {
    add_images(0, c.position_prefix, d.positions.data());
    add_images(prefix, P, d.positions.data() + c.position_prefix * D);
  }
  nn::PatchEmbedBackward<T>(p.patch_embed, w.patch_embed_, dx.slice(1, prefix, N), d.patch_embed, w.arena_);
}

template <typename T>
nn::BlockSettings Network<T>::Settings(const Options& options) const {
  nn::BlockSettings settings = MakeBlockSettings(config_.block, config_.grid(), options);
  settings.attention.rotary = rotary_ ? &*rotary_ : nullptr;
  return settings;
}

template <typename T>
void Network<T>::Forward(View<const T> weights, View<const T> pixels, const Options& options, Workspace& w,
                         View<T> logits) const {
  const model::VitConfig& c = config();
  Require(pixels.rank() == 4 && pixels.dim(0) > 0 && pixels.dense() &&
              pixels.shape() == Shape({pixels.dim(0), c.channels, c.image_height, c.image_width}),
          "network: expected dense pixels [B, {}, {}, {}], got {}", c.channels, c.image_height, c.image_width,
          pixels.shape());
  const int64_t B = pixels.dim(0), N = c.tokens(), D = c.block.width;
  Require(logits.shape() == Shape({B, c.outputs()}) && logits.dense(),
          "network: logits are {}, expected [{}, {}], dense", logits.shape(), B, c.outputs());
  w.images_ = 0;
  w.arena_.Reset();
  w.options_ = options;
  w.blocks_.Begin(c.depth, B, N, RowsRead(options), D, w.arena_);
  Embed(weights, pixels, w, w.blocks_.input());
  BlocksForward<T>(parameters_, weights, Settings(options), options, w.blocks_, w.arena_);
  OutputForward(weights, w, logits);
  w.images_ = B;
}

template <typename T>
void Network<T>::OutputForward(View<const T> weights, Workspace& w, View<T> logits) const {
  using model::Pool;
  const model::VitConfig& c = config();
  const OutputParameters<const T> p = parameters_.Output(weights);
  Arena& arena = w.arena_;
  auto& tail = w.tail_;
  tail = {};
  View<T> tokens = w.blocks_.output();
  const int64_t B = tokens.dim(0), D = c.block.width, first = c.pool_prefix ? 0 : c.prefix();
  if (c.final_norm) tokens = Normed<T>(Rows(tokens), p.norm, &tail.moments, arena).reshape(tokens.shape());
  tail.tokens = tokens;

  tail.pooled = arena.New<T>({B, c.pool == Pool::kTokenAndMean ? 2 * D : D});
  const View<T> half = tail.pooled.slice(1, 0, D);
  if (c.pool == Pool::kToken || c.pool == Pool::kTokenAndMean) nn::CopyRows<T>(SelectToken(tokens, 0), half);
  if (c.pool == Pool::kMean || c.pool == Pool::kMeanMax) nn::MeanPool<T>(tokens, first, half);
  if (c.pool == Pool::kTokenAndMean) nn::MeanPool<T>(tokens, first, tail.pooled.slice(1, D, 2 * D));
  if (c.pool == Pool::kMax) nn::MaxPool<T>(tokens, first, half);
  if (c.pool == Pool::kMeanMax) {
    const View<T> greatest = arena.New<T>({B, D});
    nn::MaxPool<T>(tokens, first, greatest);
    Scale<T>(greatest, T(1), half, true);
    Scale<T>(half, T(0.5), half);
  }
  if (c.pool == Pool::kMap)
    nn::AttentionPoolForward<T>(tokens, first, p.pool, MakePoolSettings(c, w.options_), half, tail.pool, arena);

  View<T> x = tail.pooled;
  if (c.pooler_width > 0) {
    tail.pooler_input = arena.New<T>({B, c.pooler_width}), tail.pooler = arena.New<T>({B, c.pooler_width});
    nn::LinearForward<T>(x, p.pooler, tail.pooler_input);
    simd::Activate<T>(c.pooler_activation, tail.pooler_input.data(), tail.pooler.data(), tail.pooler.size());
    x = tail.pooler;
  }
  if (c.fc_norm) x = tail.fc_normed = Normed<T>(x, p.fc_norm, &tail.fc_moments, arena);
  if (c.projection_width > 0) {
    tail.projected = arena.New<T>({B, c.projection_width});
    nn::LinearForward<T>(x, p.projection, tail.projected);
    x = tail.projected;
  }
  if (c.head_norm) x = tail.head_normed = Normed<T>(x, p.head_norm, &tail.head_moments, arena);
  c.classes > 0 ? nn::LinearForward<T>(x, p.head, logits) : nn::CopyRows<T>(x, logits);
  if (!c.averages_two_tokens()) return;
  View<const T> other = SelectToken(tokens, 1);
  if (c.classes > 0) {
    const View<T> of_token = arena.New<T>(logits.shape());
    nn::LinearForward<T>(other, p.head_dist, of_token);
    other = of_token;
  }
  Scale<T>(other, T(1), logits, true);
  Scale<T>(logits, T(0.5), logits);
}

// dtokens: [B, rows, D], the gradient of the last block's output; overwritten.
template <typename T>
void Network<T>::OutputBackward(View<const T> weights, View<const T> dlogits, Workspace& w, View<T> dtokens,
                                View<T> gradients) const {
  using model::Pool;
  const model::VitConfig& c = config();
  const OutputParameters<const T> p = parameters_.Output(weights);
  const OutputParameters<T> d = parameters_.Output(gradients);
  Arena& arena = w.arena_;
  const auto& tail = w.tail_;
  const View<const T> tokens = tail.tokens;
  const int64_t B = tokens.dim(0), D = c.block.width, first = c.pool_prefix ? 0 : c.prefix();
  std::fill_n(dtokens.data(), dtokens.size(), T(0));

  View<const T> dx = dlogits;
  if (c.averages_two_tokens()) {
    const View<T> half = arena.New<T>(dlogits.shape());
    Scale<T>(dlogits, T(0.5), half);
    dx = half;
    const View<T> dother = SelectToken(dtokens, 1);
    c.classes > 0 ? nn::LinearBackward<T>(SelectToken(tokens, 1), p.head_dist, dx, dother, true, d.head_dist)
                  : nn::CopyRows<T>(dx, dother);
  }
  const View<const T> pooler = c.pooler_width > 0 ? tail.pooler : tail.pooled;
  const View<const T> fc_normed = c.fc_norm ? tail.fc_normed : pooler;
  const View<const T> projected = c.projection_width > 0 ? tail.projected : fc_normed;
  if (c.classes > 0) {
    const View<T> dhead = arena.New<T>({B, c.pooled_width()});
    nn::LinearBackward<T>(c.head_norm ? tail.head_normed : projected, p.head, dx, dhead, false, d.head);
    dx = dhead;
  }
  if (c.head_norm) dx = NormGradient<T>(projected, tail.head_moments, p.head_norm, dx, d.head_norm, arena);
  if (c.projection_width > 0) {
    const View<T> dprojection = arena.New<T>(fc_normed.shape());
    nn::LinearBackward<T>(fc_normed, p.projection, dx, dprojection, false, d.projection);
    dx = dprojection;
  }
  if (c.fc_norm) dx = NormGradient<T>(pooler, tail.fc_moments, p.fc_norm, dx, d.fc_norm, arena);
  if (c.pooler_width > 0) {
    const View<T> dinput = arena.New<T>(tail.pooler.shape()), dpooled = arena.New<T>(tail.pooled.shape());
    simd::ActivateGradient<T>(c.pooler_activation, tail.pooler_input.data(), dx.data(), dinput.data(), dinput.size());
    nn::LinearBackward<T>(tail.pooled, p.pooler, dinput, dpooled, false, d.pooler);
    dx = dpooled;
  }

  const View<const T> half = dx.slice(1, 0, D);
  if (c.pool == Pool::kToken || c.pool == Pool::kTokenAndMean) Scale<T>(half, T(1), SelectToken(dtokens, 0), true);
  if (c.pool == Pool::kMean) nn::MeanPoolBackward<T>(half, first, dtokens, true);
  if (c.pool == Pool::kTokenAndMean) nn::MeanPoolBackward<T>(dx.slice(1, D, 2 * D), first, dtokens, true);
  if (c.pool == Pool::kMax) nn::MaxPoolBackward<T>(tokens, first, half, dtokens, true);
  if (c.pool == Pool::kMeanMax) {
    const View<T> each = arena.New<T>({B, D});
    Scale<T>(half, T(0.5), each);
    nn::MeanPoolBackward<T>(each, first, dtokens, true);
    nn::MaxPoolBackward<T>(tokens, first, each, dtokens, true);
  }
  if (c.pool == Pool::kMap) {
    nn::AttentionPoolBackward<T>(tokens, first, p.pool, MakePoolSettings(c, w.options_), tail.pool, half, dtokens, true,
                                 d.pool, arena);
  }
  if (c.final_norm) {
    nn::NormBackward<T>(Rows(w.blocks_.output()), tail.moments, p.norm, Rows(dtokens), Rows(dtokens), false, d.norm);
  }
}

template <typename T>
void Network<T>::Backward(View<const T> weights, View<const T> dlogits, Workspace& w, View<T> gradients,
                          const std::function<void(int64_t, int64_t)>& finished) const {
  const model::VitConfig& c = config();
  const int64_t B = w.images_, N = c.tokens(), D = c.block.width;
  Require(B > 0, "network: a backward pass without a forward pass before it");
  Require(dlogits.shape() == Shape({B, c.outputs()}) && dlogits.dense(),
          "network: gradients by logits are {}, expected [{}, {}], dense", dlogits.shape(), B, c.outputs());
  w.images_ = 0;
  const auto tell = [&](int64_t part) {
    if (finished) finished(parameters_.begin(part), parameters_.begin(part + 1));
  };
  const Arena::Scope scope(w.arena_);
  const View<T> dx = w.arena_.template New<T>({B, N, D});
  {
    const Arena::Scope tail(w.arena_);
    const int64_t rows = RowsRead(w.options_);
    const View<T> dtokens = rows < N ? w.arena_.template New<T>({B, rows, D}) : dx;
    OutputBackward(weights, dlogits, w, dtokens, gradients);
    for (int64_t b = 0; b < B && rows < N; ++b) nn::CopyRows<T>(dtokens[b], dx[b].slice(0, 0, rows));
  }
  tell(c.depth + 1);
  BlocksBackward<T>(parameters_, weights, Settings(w.options_), w.options_, w.blocks_, dx, gradients, finished,
                    w.arena_);
  if (gradients.empty()) return;
  EmbedBackward(weights, w, dx, gradients);
  tell(0);
}

template <typename T>
void Network<T>::Constrain(View<T> weights) const {
  ConstrainBlocks(parameters_, weights);
}

template class Network<float>;
template class Network<double>;

}  // namespace qkv::train
