// An encoder-decoder in training: forward and backward passes over one flat buffer of weights. One table of token
// vectors serves the encoder, the decoder and the head. Not here: the loss, and the split of a batch over chunks and
// threads.
#pragma once

#include <cstdint>
#include <functional>

#include "qkv/core/arena.h"
#include "qkv/core/tensor.h"
#include "qkv/model/config/sequence_config.h"
#include "qkv/train/network/blocks.h"
#include "qkv/train/network/flat_parameters.h"
#include "qkv/train/network/initialise.h"
#include "qkv/train/network/parameter_views.h"

namespace qkv::train {

/// Both parts. decoder.block.cross reads the encoder's tokens.
struct PairConfig {
  model::SequenceConfig encoder, decoder;

  bool operator==(const PairConfig&) const = default;
};

/// Throws Error if a part is not valid, the parts do not fit together, or training does not support them: both have one
/// vocabulary, computed positions or none, and the decoder's head has the tokens' vectors.
void Validate(const PairConfig& config);

/// A batch of padded texts. Tokens after a text's length are read by nothing that counts; they must be in the
/// vocabulary.
struct PairInput {
  View<const int32_t> source;          // [B, N]
  View<const int64_t> source_lengths;  // [B], 1 to N
  View<const int32_t> target;          // [B, T], what the decoder reads: the start token, then all tokens but the last
  View<const int64_t> target_lengths;  // [B], 1 to T

  int64_t dim(int axis) const { return source.dim(axis); }
  bool empty() const { return source.empty(); }
  /// Texts [begin, end). axis: 0.
  PairInput slice(int axis, int64_t begin, int64_t end) const {
    return {source.slice(axis, begin, end), source_lengths.slice(axis, begin, end), target.slice(axis, begin, end),
            target_lengths.slice(axis, begin, end)};
  }
};

template <typename T>
class PairNetwork {
 public:
  /// `first_image`: index within the step of the batch's first text.
  using Options = NetworkOptions;
  using Input = PairInput;

  /// Memory of one caller: what Forward keeps for Backward, and scratch. The second step of a shape allocates nothing.
  /// Not thread-safe.
  class Workspace {
   public:
    /// Peak memory in bytes.
    size_t peak_bytes() const { return arena_.peak_bytes(); }

   private:
    friend class PairNetwork;

    // Memory of the encoder or the decoder.
    struct Part {
      BlocksCache<T> blocks;
      View<T> normed, moments;  // [B·N, D], [B·N, 2]: output of the final norm, or of the blocks
    };

    Arena arena_;
    Options options_;
    PairInput input_;  // of the last forward pass, for Backward, or empty
    Part encoder_, decoder_;
  };

  /// Throws Error as Validate.
  explicit PairNetwork(const PairConfig& config);

  const PairConfig& config() const { return config_; }
  /// Layout of the buffers of weights and gradients, [P]: "token_embed.weight", "encoder.blocks.0.…",
  /// "decoder.blocks.0.…".
  const ParameterLayout& layout() const { return layout_; }

  /// weights: [P]; logits: [B, T, outputs], dense; those of padded tokens mean nothing. A text's logits do not depend
  /// on the other texts. Throws Error if shapes or lengths do not fit, or a token is not in the vocabulary.
  void Forward(View<const T> weights, const PairInput& input, const Options& options, Workspace& workspace,
               View<T> logits) const;

  /// Accumulates the gradient of the loss into gradients [P]. dlogits [B, T, outputs] is the gradient with respect to
  /// the logits of this workspace's last Forward, and must be zero at padded tokens; that pass's weights and input must
  /// still be unchanged in memory. Calls `finished` with ranges of `gradients` that are final, from the last to the
  /// first. Throws Error if shapes do not fit, or without a preceding Forward.
  void Backward(View<const T> weights, View<const T> dlogits, Workspace& workspace, View<T> gradients,
                const std::function<void(int64_t begin, int64_t end)>& finished = {}) const;

  /// Clamps weights to their bounds after a step, as Network::Constrain.
  void Constrain(View<T> weights) const;

  /// Fills weights [P]: matrices of standard deviation √(2 / (inputs + outputs)) (Glorot and Bengio 2010), tokens of
  /// √(1 / D), biases 0. Other kinds of attention give scores the variance that separate queries and keys give. Throws
  /// Error for Scheme::kMimetic, which is not defined here.
  void Initialise(const Initialisation& how, View<T> weights) const;

 private:
  using Part = typename Workspace::Part;

  nn::BlockSettings EncoderSettings(const PairInput& input, const Options& options) const;
  nn::BlockSettings DecoderSettings(const PairInput& input, const Options& options) const;
  void FinalNorm(const model::SequenceConfig& config, const OutputParameters<const T>& p, Part& part,
                 Arena& arena) const;
  // The weights, or gradients, of the decoder's own layout.
  template <typename U>
  View<U> DecoderBuffer(View<U> buffer) const {
    return buffer.slice(0, decoder_begin_, layout_.size());
  }
  template <typename U>
  View<U> EncoderBuffer(View<U> buffer) const {
    return buffer.slice(0, 0, decoder_begin_);
  }

  PairConfig config_;
  NetworkParameters encoder_;  // validate the configurations, so they precede their users
  NetworkParameters decoder_;  // without the tokens, which are the encoder's
  ParameterLayout layout_;
  int64_t decoder_begin_;                            // of the decoder's parameters in the buffer
  Tensor<T> encoder_positions_, decoder_positions_;  // [length, D], or empty
};

}  // namespace qkv::train
