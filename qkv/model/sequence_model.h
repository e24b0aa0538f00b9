// Inference with a sequence model: logits of whole sequences, or token by token with cached keys and values.
//
//   const auto model = qkv::model::SequenceModel<float>::Load("RUN");
//   qkv::model::Decoder<float> decoder(model);
//   std::span<const float> logits = decoder.Prefill(prompt);
//   for (…) logits = decoder.Next(sampler.Draw(logits));
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
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
  /// Throws Error that names the file and what is wrong with it. Strict, as Checkpoint::Open.
  static SequenceCheckpoint Open(const std::filesystem::path& folder);

  std::string source;                              // the folder, for messages
  SequenceConfig config;                           // from config.json
  std::shared_ptr<const io::SafeTensors> tensors;  // as stored
  std::vector<BoundTensor> bound;                  // in the order of TensorTable; points into `tensors`
};

/// An encoder or decoder of tokens, as `qkv train` produces from a task or a text.
template <typename T>
class SequenceModel {
 public:
  /// Of `options` only precision and foldings apply. Throws Error if a tensor contains NaN or infinity.
  SequenceModel(const SequenceConfig& config, const std::vector<BoundTensor>& tensors,
                const BuildOptions& options = {});
  /// Loads the folder of a training run. Throws Error as SequenceCheckpoint::Open and the constructor.
  static SequenceModel Load(const std::filesystem::path& folder, const BuildOptions& options = {});

  /// tokens: [B, N], dense, N from 1 to length; logits: [B, N, outputs], dense. A second call with the same shape and
  /// arena allocates nothing. The logits of a sequence do not depend on the other sequences. Throws Error if the shapes
  /// do not fit, or a token is not in the vocabulary.
  void Logits(View<const int32_t> tokens, Arena& arena, View<T> logits) const;
  /// As above, in new memory: [B, N, outputs].
  Tensor<T> Logits(View<const int32_t> tokens) const;

  /// The output of one token of each sequence, as config().pool selects it: out is [B, outputs], dense. tokens: [B, N],
  /// dense. mask: [B, N], dense, false for tokens that others do not attend to, such as padding; or empty. A causal
  /// model does not compute the tokens after the selected ones. Throws Error as Logits, if the model does not pool, or
  /// if a mask leaves nothing that the selected token could attend to.
  void Embed(View<const int32_t> tokens, View<const bool> mask, Arena& arena, View<T> out) const;

  const SequenceConfig& config() const { return config_; }  // widths, depth, length, vocabulary

  /// Where one sequence, 1 to length tokens, first gives NaN or infinity, such as "block 3 of 0 to 5", or the part
  /// before or after the blocks. Runs one pass per block.
  std::string WhereNotFinite(std::span<const int32_t> tokens) const;

 private:
  template <typename U>
  friend class Decoder;

  struct RunOptions {
    int64_t first = 0;                            // position of the first token
    std::span<nn::KeyValueCache<T>> caches = {};  // one per block, or empty
    int64_t rows = 0;                             // the model's last block updates the last `rows` tokens; 0: all
    size_t blocks = std::numeric_limits<size_t>::max();  // runs the first `blocks` blocks
    View<const bool> mask = {};                          // [B, 1, 1, N], or empty
    View<const int64_t> key_lengths = {};                // [B], or empty
  };
  /// Returns x, [B, N, D].
  View<T> Run(View<const int32_t> tokens, Arena& arena, const RunOptions& options = {}) const;
  /// Final norm and head. x: [R, D], output of the last block.
  void OutputForward(View<const T> x, Arena& arena, View<T> logits) const;

  SequenceConfig config_;
  Tensor<T> tokens_;     // [V, D]
  Tensor<T> positions_;  // [length, D], or empty
  std::unique_ptr<const nn::RotaryTable> rotary_;
  Tensor<T> places_;  // [depth, 2, H, length, r], for positional attention kinds; or empty
  std::vector<nn::Block<T>> blocks_;
  nn::Norm<T> norm_;
  nn::Linear<T> head_;
};

/// Decodes one sequence of a causal model token by token. Each token costs one row of every layer, and attention to the
/// cache. The logits equal those of SequenceModel::Logits for all tokens, up to rounding. A second sequence allocates
/// nothing.
template <typename T>
class Decoder {
 public:
  /// The model must outlive it. Throws Error if it is not causal.
  explicit Decoder(const SequenceModel<T>& model);

  /// Restarts with these tokens, at least one; if they exceed the model's length, with the last of them. Returns the
  /// logits of the last token, [outputs], valid until the next call.
  std::span<const T> Prefill(std::span<const int32_t> tokens);
  /// Adds one token and returns its logits. If the model's length is used up, the older half of the tokens is dropped
  /// first, and the cache of the others is recomputed.
  std::span<const T> Next(int32_t token);

  /// The tokens that the next logits depend on, at most the model's length.
  std::span<const int32_t> tokens() const { return tokens_; }

 private:
  std::span<const T> Feed(std::span<const int32_t> tokens);

  const SequenceModel<T>& model_;
  std::vector<nn::KeyValueCache<T>> caches_;  // one per block
  std::vector<int32_t> tokens_;
  Arena arena_;
  Tensor<T> logits_;  // [1, outputs]
};

}  // namespace qkv::model
