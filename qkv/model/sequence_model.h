// A sequence model's inference: logits of whole sequences, and token by token with the keys and values of what went
// before kept.
//
//   const auto model = qkv::model::SequenceModel<float>::Load("RUN");
//   qkv::model::Decoder<float> decoder(model);
//   std::span<const float> logits = decoder.Prefill(prompt);
//   for (…) logits = decoder.Next(sampler.Draw(logits));
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/core/arena.h"
#include "qkv/core/tensor.h"
#include "qkv/io/safetensors.h"
#include "qkv/model/checkpoint/tensor_names.h"
#include "qkv/model/config/sequence_config.h"
#include "qkv/model/vit.h"
#include "qkv/nn/block.h"
#include "qkv/nn/rotary.h"

namespace qkv::model {

/// A sequence model on disk: a folder with config.json and model.safetensors.
struct SequenceCheckpoint {
  /// Throws Error that names the file and what is wrong with it: strict, as Checkpoint::Open.
  static SequenceCheckpoint Open(const std::filesystem::path& folder);

  std::string source;                              // the folder, for messages
  SequenceConfig config;                           // of config.json
  std::shared_ptr<const io::SafeTensors> tensors;  // as stored
  std::vector<BoundTensor> bound;                  // in the order of TensorTable; points into `tensors`
};

/// An encoder or decoder of tokens, as `qkv train` makes it from a task or a text.
template <typename T>
class SequenceModel {
 public:
  /// Of `options` the precision and the foldings count. Throws Error when a tensor holds NaN or infinity.
  SequenceModel(const SequenceConfig& config, const std::vector<BoundTensor>& tensors,
                const BuildOptions& options = {});
  /// Of a run's folder. Throws Error as SequenceCheckpoint::Open and the constructor.
  static SequenceModel Load(const std::filesystem::path& folder, const BuildOptions& options = {});

  /// tokens: [B, N], dense, N of 1 to length; logits: [B, N, outputs], dense. A second call of a shape with the same
  /// arena allocates nothing. A sequence's logits do not depend on the others'. Throws Error when shapes do not fit, or
  /// a token is not in the vocabulary.
  void Logits(View<const int32_t> tokens, Arena& arena, View<T> logits) const;
  /// The same with memory of its own: [B, N, outputs].
  Tensor<T> Logits(View<const int32_t> tokens) const;

  const SequenceConfig& config() const { return config_; }  // widths, depth, length, vocabulary

  /// What the answer to one sequence, 1 to length tokens, becomes NaN or infinite in, by a pass for each block: "block
  /// 3 of 0 to 5", or what stands before and behind the blocks.
  std::string WhereNotFinite(std::span<const int32_t> tokens) const;

 private:
  template <typename U>
  friend class Decoder;

  /// Tokens at places first, first + 1, … through the first `blocks` blocks: x [B, N, D], of which the last one of all
  /// updates the last `rows` of each sequence only. caches: of each block, or empty.
  View<T> Run(View<const int32_t> tokens, int64_t first, std::span<nn::KeyValueCache<T>> caches, int64_t rows,
              size_t blocks, Arena& arena) const;
  /// x: [R, D], what leaves the last block.
  void Answer(View<const T> x, Arena& arena, View<T> logits) const;

  SequenceConfig config_;
  Tensor<T> tokens_;     // [V, D]
  Tensor<T> positions_;  // [length, D], or empty
  std::unique_ptr<const nn::RotaryTable> rotary_;
  Tensor<T> places_;  // [depth, 2, H, length, r], where scores are of places alone
  std::vector<nn::Block<T>> blocks_;
  nn::Norm<T> norm_;
  nn::Linear<T> head_;
};

/// One sequence of a causal model, token by token: each costs one row of every layer, and attention to what is kept.
/// The logits are those of SequenceModel::Logits of all tokens, up to rounding. A second sequence allocates nothing.
template <typename T>
class Decoder {
 public:
  /// The model must outlive it. Throws Error when it is not causal.
  explicit Decoder(const SequenceModel<T>& model);

  /// Begins anew with these tokens, at least one; where they are more than fit, with the last of them. Returns the
  /// logits of the last, [outputs], which are there until the next call.
  std::span<const T> Prefill(std::span<const int32_t> tokens);
  /// One more token. When the model's length is used up, the older half of the tokens is forgotten first, and what the
  /// others leave is computed anew.
  std::span<const T> Next(int32_t token);

  /// What the next token is an answer to, at most the model's length.
  std::span<const int32_t> tokens() const { return tokens_; }

 private:
  std::span<const T> Feed(std::span<const int32_t> tokens);

  const SequenceModel<T>& model_;
  std::vector<nn::KeyValueCache<T>> caches_;  // of each block
  std::vector<int32_t> tokens_;
  Arena arena_;
  Tensor<T> logits_;  // [1, outputs]
};

}  // namespace qkv::model
