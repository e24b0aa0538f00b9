#include "qkv/model/sequence/decoder.h"

#include <algorithm>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/memory.h"

namespace qkv::model {

template <typename T>
Decoder<T>::Decoder(const SequenceModel<T>& model, int64_t sequences, int64_t length)
    : model_(model), length_(length > 0 ? std::min(length, model.config().length) : model.config().length) {
  const SequenceConfig& c = model.config();
  Require(c.causal && c.outputs > 0,
          "decoder: the model is not causal: what a token is answered depends on those that follow");
  Require(sequences > 0, "decoder: expected one sequence at least");
  const bool rotary = model.rotary_ != nullptr;
  double elements = static_cast<double>(sequences) * static_cast<double>(c.outputs);
  for (const nn::Block<T>& block : model.blocks_) {
    elements += nn::KeyValueCache<T>::Elements(block.attention, sequences, c.block.width, length_, rotary);
  }
  RequireMemory(sizeof(T) * elements,
                fmt::format("decoder: keys and values of {} sequences of {} tokens", sequences, length_));
  for (const nn::Block<T>& block : model.blocks_) {
    caches_.emplace_back(block.attention, sequences, c.block.width, length_, rotary);
  }
  logits_ = Tensor<T>({sequences, c.outputs});
}

template <typename T>
std::span<const T> Decoder<T>::Prefill(std::span<const int32_t> tokens) {
  Require(!tokens.empty(), "decoder: expected one token at least to begin with");
  source_ = nullptr;
  feed_.assign(tokens.end() - std::min<std::ptrdiff_t>(std::ssize(tokens), length_), tokens.end());
  tokens_.resize(1);
  tokens_[0].clear(), tokens_[0].reserve(static_cast<size_t>(length_));
  for (nn::KeyValueCache<T>& cache : caches_) cache.lengths[0] = 0;
  Feed(0, 1, View<const int32_t>(feed_.data(), {1, std::ssize(feed_)}));
  return {logits_.data(), static_cast<size_t>(logits_.dim(1))};
}

template <typename T>
std::span<const T> Decoder<T>::Next(int32_t token) {
  Require(sequences() == 1, "decoder: one token for {} sequences", sequences());
  RequireTokens(model_.config(), View<const int32_t>(&token, {1}));
  std::vector<int32_t>& tokens = tokens_[0];
  if (std::ssize(tokens) == length_) {
    tokens.erase(tokens.begin(), tokens.end() - length_ / 2);
    tokens.push_back(token);
    const std::vector<int32_t> kept = tokens;
    return Prefill(kept);
  }
  Feed(0, 1, View<const int32_t>(&token, {1, 1}));
  return {logits_.data(), static_cast<size_t>(logits_.dim(1))};
}

template <typename T>
View<const T> Decoder<T>::Start(std::span<const std::vector<int32_t>> prompts, Source<T>* source) {
  const int64_t B = std::ssize(prompts);
  Require(B > 0 && B <= logits_.dim(0), "decoder: {} sequences, expected 1 to {}", B, logits_.dim(0));
  Require((source != nullptr) == model_.config().block.cross.has_value() && (!source || B % source->entries == 0),
          "decoder: a model with cross-attention needs a source, with an entry for each sequence or for equally many");
  bool even = true;
  for (const std::vector<int32_t>& prompt : prompts) {
    Require(!prompt.empty() && std::ssize(prompt) <= length_, "decoder: a prompt of {} tokens, expected 1 to {}",
            prompt.size(), length_);
    even = even && prompt.size() == prompts[0].size();
  }
  source_ = source;
  tokens_.resize(prompts.size());
  for (std::vector<int32_t>& tokens : tokens_) tokens.clear(), tokens.reserve(static_cast<size_t>(length_));
  for (nn::KeyValueCache<T>& cache : caches_) std::ranges::fill(cache.lengths.span(), int64_t{0});
  // Prompts of one length go through the layers together, but for those of several tokens that share a source.
  const bool share = source != nullptr && source->entries < B && prompts[0].size() > 1;
  const int64_t together = even && !share ? B : 1;
  for (int64_t begin = 0; begin < B; begin += together) {
    feed_.clear();
    for (int64_t b = begin; b < begin + together; ++b) {
      const std::vector<int32_t>& prompt = prompts[static_cast<size_t>(b)];
      feed_.insert(feed_.end(), prompt.begin(), prompt.end());
    }
    Feed(begin, begin + together, View<const int32_t>(feed_.data(), {together, std::ssize(feed_) / together}));
  }
  return logits_.view().slice(0, 0, B);
}

template <typename T>
View<const T> Decoder<T>::Next(std::span<const int32_t> tokens) {
  const int64_t B = std::ssize(tokens);
  Require(B > 0 && B == sequences(), "decoder: {} tokens for {} sequences", B, sequences());
  RequireTokens(model_.config(), View<const int32_t>(tokens.data(), {B}));
  for (const std::vector<int32_t>& sequence : tokens_) {
    Require(std::ssize(sequence) < length_, "decoder: a sequence has {} tokens and no room for another",
            sequence.size());
  }
  Feed(0, B, View<const int32_t>(tokens.data(), {B, 1}));
  return logits_.view().slice(0, 0, B);
}

template <typename T>
void Decoder<T>::Select(std::span<const int64_t> rows) {
  Require(std::ssize(rows) <= logits_.dim(0), "decoder: {} sequences, expected up to {}", rows.size(), logits_.dim(0));
  for (const int64_t row : rows) {
    Require(row >= 0 && row < sequences(), "decoder: no sequence {} among {}", row, sequences());
  }
  for (nn::KeyValueCache<T>& cache : caches_) cache.Select(rows);
  std::vector<std::vector<int32_t>> tokens;
  for (const int64_t row : rows) tokens.push_back(tokens_[static_cast<size_t>(row)]);
  tokens_ = std::move(tokens);
}

template <typename T>
void Decoder<T>::Feed(int64_t begin, int64_t end, View<const int32_t> tokens) {
  const int64_t B = end - begin, N = tokens.dim(1), D = model_.config().block.width;
  first_.clear();
  for (int64_t b = begin; b < end; ++b) first_.push_back(std::ssize(tokens_[static_cast<size_t>(b)]));
  typename SequenceModel<T>::RunOptions options{
      .first = first_, .caches = caches_, .cached_begin = begin, .source = source_};
  if (source_) {
    const int64_t share = sequences() / std::max<int64_t>(1, source_->entries);
    Require(share > 0 && share * source_->entries == sequences(),
            "decoder: {} sequences do not share the {} entries of their source equally; Source::Select drops entries",
            sequences(), source_->entries);
    options.source_begin = begin / share, options.source_end = (end + share - 1) / share;
  }
  options.rows = 1;
  arena_.Reset();
  const View<T> x = model_.Run(tokens, arena_, options), last = arena_.New<T>({B, D});
  for (int64_t b = 0; b < B; ++b) {
    std::vector<int32_t>& sequence = tokens_[static_cast<size_t>(begin + b)];
    sequence.insert(sequence.end(), tokens.row(b), tokens.row(b) + N);
    std::copy_n(x.at(b, N - 1), D, last.row(b));
  }
  model_.OutputForward(last, arena_, logits_.view().slice(0, begin, end));
}

template class Decoder<float>;
template class Decoder<double>;

}  // namespace qkv::model
