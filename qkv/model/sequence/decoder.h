// Decoding with a sequence model token by token, with cached keys and values.
//
//   const auto model = qkv::model::SequenceModel<float>::Load("RUN");
//   qkv::model::Decoder<float> decoder(model);
//   std::span<const float> logits = decoder.Prefill(prompt);
//   for (…) logits = decoder.Next(sampler.Draw(logits));
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/core/arena.h"
#include "qkv/core/tensor.h"
#include "qkv/model/sequence/sequence_model.h"

namespace qkv::model {

/// Decodes sequences of a causal model token by token. Each token costs one row of every layer, and attention to the
/// cache. The logits equal those of SequenceModel::Forward for all tokens, up to rounding, whatever the other sequences
/// are. Sequences of a second start allocate nothing.
template <typename T>
class Decoder {
 public:
  /// For up to `sequences` at a time, of up to `length` tokens each; 0: the model's length. The model must outlive it.
  /// Throws Error if it is not causal.
  explicit Decoder(const SequenceModel<T>& model, int64_t sequences = 1, int64_t length = 0);

  /// Restarts one sequence with these tokens, at least one; if they exceed the length, with the last of them. Returns
  /// the logits of the last token, [outputs], valid until the next call.
  std::span<const T> Prefill(std::span<const int32_t> tokens);
  /// Adds one token to the only sequence and returns its logits. If the length is used up, the older half of the tokens
  /// is dropped first, and the cache of the others is recomputed.
  std::span<const T> Next(int32_t token);

  /// Restarts with a sequence for each of `prompts`, which have one token at least. source: what cross-attention reads,
  /// with an entry for each sequence, or for equally many that follow each other; it must live as long as they are
  /// decoded. Returns the logits of the last tokens, [sequences, outputs], valid until the next call. Throws Error if
  /// there are too many sequences or tokens.
  View<const T> Start(std::span<const std::vector<int32_t>> prompts, Source<T>* source = nullptr);
  /// Adds a token to each sequence and returns their logits, [sequences, outputs]. Throws Error if one has no room.
  View<const T> Next(std::span<const int32_t> tokens);
  /// Sequence i becomes the former sequence rows[i], and there are rows.size(): drops those that have ended, reorders
  /// and repeats those of a beam search. The source is not changed; see Source::Select.
  void Select(std::span<const int64_t> rows);

  const SequenceConfig& config() const { return model_.config(); }  // of the model
  int64_t sequences() const { return std::ssize(tokens_); }         // being decoded
  int64_t length() const { return length_; }                        // greatest number of tokens of each
  /// The tokens of a sequence that its next logits depend on.
  std::span<const int32_t> tokens(int64_t sequence = 0) const { return tokens_[static_cast<size_t>(sequence)]; }

 private:
  /// Adds N tokens to each of the sequences [begin, end), tokens [end − begin, N], and computes their logits.
  void Feed(int64_t begin, int64_t end, View<const int32_t> tokens);

  const SequenceModel<T>& model_;
  int64_t length_ = 0;
  Source<T>* source_ = nullptr;
  std::vector<nn::KeyValueCache<T>> caches_;  // one per block
  std::vector<std::vector<int32_t>> tokens_;  // of each sequence
  std::vector<int64_t> first_;                // scratch: position of each sequence's next token
  std::vector<int32_t> feed_;                 // scratch: tokens of a pass
  Arena arena_;
  Tensor<T> logits_;  // [greatest number of sequences, outputs]
};

}  // namespace qkv::model
