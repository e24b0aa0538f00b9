// A sequence model in training: forward and backward over one flat buffer of weights as they are stored, for everything
// that SequenceConfig expresses. Not here: the loss, and how a batch is cut into pieces and shared out to threads.
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
  /// `first_image`: which sequence of the step the first one is.
  using Options = NetworkOptions;
  using Input = View<const int32_t>;  // tokens

  /// Memory of one caller: what Forward leaves for Backward, and scratch. The second step of a shape allocates nothing.
  /// Not shared between threads.
  class Workspace {
   public:
    /// The most bytes ever in use at a time.
    size_t peak_bytes() const { return arena_.peak_bytes(); }

   private:
    friend class SequenceNetwork;

    Arena arena_;
    Options options_;
    View<const int32_t> tokens_;  // of the forward pass that a backward pass may follow, or empty
    BlocksCache<T> blocks_;
    View<T> normed_, moments_;  // [B·N, D], [B·N, 2]: what the head reads
  };

  /// Throws Error when the configuration contradicts itself.
  explicit SequenceNetwork(const model::SequenceConfig& config);

  const model::SequenceConfig& config() const { return config_; }
  /// Where each tensor lies in buffers of weights and of gradients, [P].
  const ParameterLayout& layout() const { return parameters_.layout(); }

  /// weights: [P]; tokens: [B, N], dense, N of 1 to config().length; logits: [B, N, outputs], dense. A sequence's
  /// logits do not depend on the others'. Throws Error when shapes do not fit, or a token is not in the vocabulary.
  void Forward(View<const T> weights, View<const int32_t> tokens, const Options& options, Workspace& workspace,
               View<T> logits) const;

  /// Adds the gradient of the loss to gradients [P], given that by the logits [B, N, outputs] of the last Forward with
  /// this workspace, the same weights and tokens, which must still be there. `finished` is told ranges of elements of
  /// `gradients` that nothing more is added to, from the last to the first. Throws Error when shapes do not fit, or
  /// nothing went before.
  void Backward(View<const T> weights, View<const T> dlogits, Workspace& workspace, View<T> gradients,
                const std::function<void(int64_t begin, int64_t end)>& finished = {}) const;

  /// Puts weights back into their bounds after a step, as Network::Constrain.
  void Constrain(View<T> weights) const;

 private:
  nn::BlockSettings Settings(int64_t N, const Options& options) const;

  model::SequenceConfig config_;
  NetworkParameters parameters_;  // before what takes the configuration to be sound
  Tensor<T> positions_;           // [length, D], where they are computed
  std::optional<nn::RotaryTable> rotary_;
};

}  // namespace qkv::train
