// A Vision Transformer in training: forward and backward over one flat buffer of weights as they are stored, for
// everything that VitConfig expresses. Not here: the loss, and how a batch is cut into pieces and shared out to threads
// (step.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "qkv/core/arena.h"
#include "qkv/core/tensor.h"
#include "qkv/train/network/blocks.h"
#include "qkv/train/network/parameter_views.h"

namespace qkv::train {

template <typename T>
class Network {
 public:
  using Options = NetworkOptions;
  using Input = View<const T>;  // pixels

  /// Memory of one caller: what Forward leaves for Backward, and scratch. The second step of a shape allocates nothing.
  /// Not shared between threads.
  class Workspace {
   public:
    /// The most bytes ever in use at a time.
    size_t peak_bytes() const { return arena_.peak_bytes(); }

   private:
    friend class Network;

    // From the tokens after the last block, of which the first `rows` of each image are read, to the logits.
    struct Tail {
      View<T> tokens, moments;  // [B·rows, D], [B·rows, 2]: after the final norm
      nn::AttentionPoolCache<T> pool;
      View<T> pooled;                // [B, D] or [B, 2·D]
      View<T> pooler_input, pooler;  // before and after its activation
      View<T> fc_moments, fc_normed;
      View<T> head_moments, head_normed;
    };

    Arena arena_;
    Options options_;
    int64_t images_ = 0;  // of the forward pass that a backward pass may follow
    nn::PatchEmbedCache<T> patch_embed_;
    View<T> embedded_, embedded_moments_;  // before norm_pre
    BlocksCache<T> blocks_;
    Tail tail_;
  };

  /// Throws Error when the configuration contradicts itself.
  explicit Network(const model::VitConfig& config);

  const model::VitConfig& config() const { return config_; }
  /// Where each tensor lies in buffers of weights and of gradients, [P].
  const ParameterLayout& layout() const { return parameters_.layout(); }

  /// weights: [P]; pixels: [B, channels, height, width] of the configuration's size, dense; logits: [B, outputs()],
  /// dense. An image's logits do not depend on the others'. Throws Error when the shapes do not fit.
  void Forward(View<const T> weights, View<const T> pixels, const Options& options, Workspace& workspace,
               View<T> logits) const;

  /// Adds the gradient of the loss to gradients [P], given that by the logits of the last Forward with this workspace,
  /// the same weights and pixels, which must still be there. `finished` is told ranges of elements of `gradients` that
  /// nothing more is added to, from the last to the first. Throws Error when shapes do not fit, or nothing went before.
  void Backward(View<const T> weights, View<const T> dlogits, Workspace& workspace, View<T> gradients,
                const std::function<void(int64_t begin, int64_t end)>& finished = {}) const;

  /// Puts weights back into their bounds after a step: a bandwidth has a least value that checkpoints may hold.
  void Constrain(View<T> weights) const;

 private:
  int64_t RowsRead() const;
  nn::BlockSettings Settings(const Options& options) const;
  void Embed(View<const T> weights, View<const T> pixels, Workspace& workspace, View<T> x) const;
  void EmbedBackward(View<const T> weights, Workspace& workspace, View<T> dx, View<T> gradients) const;
  void Answer(View<const T> weights, Workspace& workspace, View<T> logits) const;
  void AnswerBackward(View<const T> weights, View<const T> dlogits, Workspace& workspace, View<T> dtokens,
                      View<T> gradients) const;

  model::VitConfig config_;
  NetworkParameters parameters_;
  Tensor<T> positions_;  // [patches, D], where they are computed
  std::optional<nn::RotaryTable> rotary_;
};

}  // namespace qkv::train
