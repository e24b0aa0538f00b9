// A sequence model in training: forward and backward passes over one flat buffer of weights in their stored layout, for
// everything that SequenceConfig can describe. Not here: the loss, and the split of a batch over chunks and threads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "qkv/core/arena.h"
#include "qkv/core/tensor.h"
#include "qkv/model/config/sequence_config.h"
#include "qkv/nn/rotary.h"
#include "qkv/train/network/blocks.h"
#include "qkv/train/network/parameter_views.h"

namespace qkv::train {

template <typename T>
class SequenceNetwork {
 public:
  /// `first_image`: index within the step of the batch's first sequence.
  using Options = NetworkOptions;
  using Input = View<const int32_t>;  // tokens

  /// Memory of one caller: what Forward keeps for Backward, and scratch. The second step of a shape allocates nothing.
  /// Not thread-safe.
  class Workspace {
   public:
    /// Peak memory in bytes.
    size_t peak_bytes() const { return arena_.peak_bytes(); }

   private:
    friend class SequenceNetwork;

    Arena arena_;
    Options options_;
    View<const int32_t> tokens_;  // of the last forward pass, for Backward, or empty
    BlocksCache<T> blocks_;
    View<T> normed_, moments_;  // [B·N, D], [B·N, 2]: the head's input
  };

  /// Throws Error if the configuration is inconsistent.
  explicit SequenceNetwork(const model::SequenceConfig& config);

  const model::SequenceConfig& config() const { return config_; }
  /// Layout of the buffers of weights and gradients, [P].
  const ParameterLayout& layout() const { return parameters_.layout(); }

  /// weights: [P]; tokens: [B, N], dense, N of 1 to config().length; logits: [B, N, outputs], dense. A sequence's
  /// logits do not depend on the other sequences. Throws Error if shapes do not fit, or a token is not in the
  /// vocabulary.
  void Forward(View<const T> weights, View<const int32_t> tokens, const Options& options, Workspace& workspace,
               View<T> logits) const;

  /// Accumulates the gradient of the loss into gradients [P]. dlogits [B, N, outputs] is the gradient with respect to
  /// the logits of this workspace's last Forward; its weights and tokens must still be unchanged in memory. Calls
  /// `finished` with ranges of `gradients` that are final, from the last to the first. Throws Error if shapes do not
  /// fit, or without a preceding Forward.
  void Backward(View<const T> weights, View<const T> dlogits, Workspace& workspace, View<T> gradients,
                const std::function<void(int64_t begin, int64_t end)>& finished = {}) const;

  /// Clamps weights to their bounds after a step, as Network::Constrain.
  void Constrain(View<T> weights) const;

 private:
  nn::BlockSettings Settings(int64_t N, const Options& options) const;

  model::SequenceConfig config_;
  NetworkParameters parameters_;  // validates the configuration, so it precedes its users
  Tensor<T> positions_;           // [length, D], if positions are computed, not learned
  std::optional<nn::RotaryTable> rotary_;
};

}  // namespace qkv::train
