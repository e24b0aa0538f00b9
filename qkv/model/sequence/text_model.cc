#include "qkv/model/sequence/text_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "qkv/core/error.h"
#include "qkv/core/parallel.h"
#include "qkv/model/blocks/finite.h"
#include "qkv/model/blocks/unit_rows.h"
#include "qkv/model/layout/bound_tensor.h"

namespace qkv::model {
namespace {

// Tokens of texts that are computed together: enough for the products' panels, few enough for the caches.
constexpr int64_t kTokensTogether = 512;

// The vector of a text, out [D], of its tokens [N, D].
void PoolSentence(View<const float> tokens, SentencePool pool, float* out) {
  const int64_t N = tokens.dim(0), D = tokens.dim(1);
  switch (pool) {
    case SentencePool::kFirst:
    case SentencePool::kLast:
      std::copy_n(tokens.row(pool == SentencePool::kFirst ? 0 : N - 1), D, out);
      return;
    case SentencePool::kMax:
      std::copy_n(tokens.row(0), D, out);
      for (int64_t n = 1; n < N; ++n) {
        for (int64_t d = 0; d < D; ++d) out[d] = std::max(out[d], tokens.row(n)[d]);
      }
      return;
    case SentencePool::kMean:
    case SentencePool::kMeanSqrt: {
      const double count = static_cast<double>(N), divisor = pool == SentencePool::kMean ? count : std::sqrt(count);
      for (int64_t d = 0; d < D; ++d) {
        double sum = 0;
        for (int64_t n = 0; n < N; ++n) sum += tokens.row(n)[d];
        out[d] = static_cast<float>(sum / divisor);
      }
    }
  }
}

// Texts [begin, end) in the order of their lengths that are computed together.
struct Batch {
  size_t begin, end;
};

std::vector<Batch> MakeBatches(std::span<const std::vector<int32_t>> ids, const std::vector<size_t>& order) {
  std::vector<Batch> batches;
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    // The longest is the last: the others are padded to it.
    while (end < order.size() && static_cast<int64_t>((end + 1 - begin) * ids[order[end]].size()) <= kTokensTogether) {
      ++end;
    }
    batches.push_back({begin, end});
    begin = end;
  }
  return batches;
}

// Lengths of texts by a mask whose padding is at the end, [B].
void LengthsOfMask(View<const bool> mask, int64_t B, int64_t N, Tensor<int64_t>* lengths) {
  Require(mask.empty() || (mask.shape() == Shape({B, N}) && mask.dense()),
          "text model: the mask is {}, expected [{}, {}], dense", mask.shape(), B, N);
  lengths->Reuse({B});
  for (int64_t b = 0; b < B; ++b) {
    int64_t& length = lengths->data()[b];
    length = N;
    if (mask.empty()) continue;
    const bool* const row = mask.row(b);
    length = std::find(row, row + N, false) - row;
    Require(length > 0 && std::find(row + length, row + N, true) == row + N,
            "text model: the mask of text {} hides its first token or one between others; expected padding at the end",
            b);
  }
}

}  // namespace

TextModel TextModel::Load(const std::filesystem::path& path, const BuildOptions& options) {
  return TextModel(TextCheckpoint::Open(path), options);
}

TextModel::TextModel(const TextCheckpoint& checkpoint, const BuildOptions& options)
    : description_(checkpoint.description) {
  const auto build = [&](const std::optional<SequenceConfig>& config, const std::vector<BoundTensor>& tensors) {
    return config ? std::make_unique<const SequenceModel<float>>(*config, tensors, options) : nullptr;
  };
  encoder_ = build(description_.encoder, checkpoint.encoder);
  decoder_ = build(description_.decoder, checkpoint.decoder);
}

int64_t TextModel::weight_bytes() const {
  return (encoder_ ? encoder_->weight_bytes() : 0) + (decoder_ ? decoder_->weight_bytes() : 0);
}

const SequenceModel<float>& TextModel::encoder() const {
  Require(has_encoder(), "text model: {} has no encoder", description_.architecture);
  return *encoder_;
}

const SequenceModel<float>& TextModel::decoder() const {
  Require(has_decoder(), "text model: {} has no decoder", description_.architecture);
  return *decoder_;
}

int64_t TextModel::text_length() const { return (has_encoder() ? *encoder_ : *decoder_).config().length; }

int64_t TextModel::width() const {
  Require(has_encoder() && !has_decoder(), "text model: {} writes texts and has no vector of one",
          description_.architecture);
  return encoder_->config().block.width;
}

Tensor<float> TextModel::Embed(std::span<const std::vector<int32_t>> ids, int64_t prompt) const {
  const int64_t D = width();
  const int64_t skipped = description_.sentence.pools_prompt ? 0 : prompt;
  for (size_t i = 0; i < ids.size(); ++i) {
    Require(!ids[i].empty() && std::ssize(ids[i]) <= text_length(), "text model: text {} has {} ids, expected 1 to {}",
            i, ids[i].size(), text_length());
    Require(std::ssize(ids[i]) > skipped, "text model: text {} is cut within the prompt that goes before it, {} tokens",
            i, skipped);
  }
  std::vector<size_t> order(ids.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return ids[i].size(); });
  const std::vector<Batch> batches = MakeBatches(ids, order);
  auto out = Tensor<float>::Uninitialised({std::ssize(ids), D});
  struct Scratch {
    Arena arena;
    Tensor<int32_t> ids;
    Tensor<bool> mask;
    Tensor<float> tokens;
  };
  std::vector<Scratch> scratch(static_cast<size_t>(NumThreads()));
  // The longest first: the last to end are short.
  ParallelTasks(std::ssize(batches), [&](int64_t task, int thread) {
    const Batch& batch = batches[batches.size() - 1 - static_cast<size_t>(task)];
    Scratch& s = scratch[static_cast<size_t>(thread)];
    const int64_t B = static_cast<int64_t>(batch.end - batch.begin), N = std::ssize(ids[order[batch.end - 1]]);
    s.ids.Reuse({B, N}), s.mask.Reuse({B, N}), s.tokens.Reuse({B, N, D});
    for (int64_t b = 0; b < B; ++b) {
      const std::vector<int32_t>& text = ids[order[batch.begin + static_cast<size_t>(b)]];
      for (int64_t n = 0; n < N; ++n) {
        const bool read = n < std::ssize(text);
        s.ids.view().row(b)[n] = read ? text[static_cast<size_t>(n)] : text[0];
        s.mask.view().row(b)[n] = read;
      }
    }
    const bool padded = std::ssize(ids[order[batch.begin]]) < N;
    encoder_->Forward(s.ids, {.mask = padded ? View<const bool>(s.mask) : View<const bool>()}, s.arena,
                      {.tokens = s.tokens});
    for (int64_t b = 0; b < B; ++b) {
      const size_t text = order[batch.begin + static_cast<size_t>(b)];
      float* const vector = out.view().row(static_cast<int64_t>(text));
      PoolSentence(s.tokens.view()[b].slice(0, skipped, std::ssize(ids[text])), description_.sentence.pool, vector);
      if (!AllFinite(vector, D))
        throw AnswerError(fmt::format("text model: the vector of text {} is not finite", text));
    }
  });
  if (description_.sentence.normalise) {
    const int64_t bad = NormaliseRows(out);
    Require(bad < 0, "text model: the vector of text {} is zero and has no direction", bad);
  }
  return out;
}

void TextModel::ReadSource(const TextInputs& inputs, TextWorkspace& w, View<float> encoder_tokens,
                           std::span<const Outputs<float>::Attention> attention,
                           std::span<const Outputs<float>::Hidden> hidden, nn::Probe<float>* probe) const {
  const int64_t D = encoder().config().block.width;
  Require(inputs.ids.rank() == 2, "text model: expected ids [B, N], got {}", inputs.ids.shape());
  const int64_t B = inputs.ids.dim(0), N = inputs.ids.dim(1);
  LengthsOfMask(inputs.mask, B, N, &w.lengths);
  if (encoder_tokens.empty()) {
    w.tokens.Reuse({B, N, D});
    encoder_tokens = w.tokens;
  }
  encoder_->Forward(inputs.ids, {.types = inputs.types, .mask = inputs.mask}, w.arena,
                    {.tokens = encoder_tokens,
                     .attention = {attention.begin(), attention.end()},
                     .hidden = {hidden.begin(), hidden.end()},
                     .probe = probe});
  w.arena.Reset();
  w.source.weights = inputs.cross ? *inputs.cross : nn::CrossWeights();
  const SequenceConfig& c = decoder().config();
  if (inputs.cross && c.block.cross) inputs.cross->Validate(c.depth, c.block.cross->heads);
  decoder().ReadSource(encoder_tokens, w.lengths, w.arena, &w.source);
}

void TextModel::Forward(const TextInputs& inputs, TextWorkspace& w, const TextOutputs& outputs) const {
  const bool pair = has_encoder() && has_decoder();
  Require(inputs.decoder_ids.empty() != pair, "text model: ids for a decoder with cross-attention are {}",
          pair ? "missing" : "given, and the model has none");
  const bool asks_for_pair = !outputs.encoder_tokens.empty() || !outputs.encoder_attention.empty() ||
                             !outputs.encoder_hidden.empty() || !outputs.cross_attention.empty() ||
                             outputs.encoder_probe != nullptr;
  Require(pair || !asks_for_pair, "text model: {} has no decoder with cross-attention to an encoder",
          description_.architecture);
  Require(has_decoder() || outputs.logits.empty(), "text model: {} has no logits", description_.architecture);
  SequenceOutputs<float> parts{.logits = outputs.logits,
                               .tokens = outputs.tokens,
                               .pooled = outputs.pooled,
                               .attention = outputs.attention,
                               .cross_attention = outputs.cross_attention,
                               .hidden = outputs.hidden,
                               .probe = outputs.probe};
  if (pair) {
    ReadSource(inputs, w, outputs.encoder_tokens, outputs.encoder_attention, outputs.encoder_hidden,
               outputs.encoder_probe);
    decoder_->Forward(inputs.decoder_ids, {.source = &w.source}, w.arena, parts);
  } else {
    (has_encoder() ? *encoder_ : *decoder_)
        .Forward(inputs.ids, {.types = inputs.types, .mask = inputs.mask}, w.arena, parts);
  }
}

}  // namespace qkv::model
