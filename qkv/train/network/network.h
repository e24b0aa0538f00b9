// A Vision Transformer in training: forward and backward passes over one flat buffer of weights in their stored layout,
// for everything that VitConfig can describe. Not here: the loss, and the split of a batch over chunks and threads
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

  /// Memory of one caller: what Forward keeps for Backward, and scratch. The second step of a shape allocates nothing.
  /// Not thread-safe.
  class Workspace {
   public:
    /// Peak memory in bytes.
    size_t peak_bytes() const { return arena_.peak_bytes(); }
    /// Results of the last forward pass, in memory that the next one overwrites: the tokens entering block `block`, [B,
    /// N, D]; for `depth` the output of the last block, [B, rows, D].
    View<const T> Hidden(int64_t block) const { return blocks_.inputs[static_cast<size_t>(block)]; }
    /// Likewise the tokens that the head reads, after the final norm if there is one: [B, rows, D].
    View<const T> Tokens() const { return tail_.tokens; }

   private:
    friend class Network;

    // From the last block's output to the logits; only the first `rows` tokens of each image are read.
    struct Tail {
      View<T> tokens, moments;  // [B·rows, D], [B·rows, 2]: after the final norm
      nn::AttentionPoolCache<T> pool;
      View<T> pooled;                // [B, D] or [B, 2·D]
      View<T> pooler_input, pooler;  // before and after its activation
      View<T> fc_moments, fc_normed;
      View<T> projected;
      View<T> head_moments, head_normed;
    };

    Arena arena_;
    Options options_;
    int64_t images_ = 0;  // of the last forward pass, for Backward
    nn::PatchEmbedCache<T> patch_embed_;
    View<T> embedded_, embedded_moments_;  // before norm_pre
    BlocksCache<T> blocks_;
    Tail tail_;
  };

  /// Throws Error if the configuration is inconsistent.
  explicit Network(const model::VitConfig& config);

  const model::VitConfig& config() const { return config_; }
  /// Layout of the buffers of weights and gradients, [P].
  const ParameterLayout& layout() const { return parameters_.layout(); }

  /// weights: [P]; pixels: [B, channels, height, width] of the configuration's size, dense; logits: [B, outputs()],
  /// dense. An image's logits do not depend on the other images. Throws Error if the shapes do not fit.
  void Forward(View<const T> weights, View<const T> pixels, const Options& options, Workspace& workspace,
               View<T> logits) const;

  /// Accumulates the gradient of the loss into gradients [P]. dlogits is the gradient with respect to the logits of
  /// this workspace's last Forward; its weights and pixels must still be unchanged in memory. Calls `finished` with
  /// ranges of `gradients` that are final, from the last to the first. With empty gradients, computes only those of the
  /// blocks' activations, for open attention. Throws Error if shapes do not fit, or without a preceding Forward.
  void Backward(View<const T> weights, View<const T> dlogits, Workspace& workspace, View<T> gradients,
                const std::function<void(int64_t begin, int64_t end)>& finished = {}) const;

  /// Clamps weights to their bounds after a step: checkpoints require a least bandwidth.
  void Constrain(View<T> weights) const;

 private:
  int64_t RowsRead(const Options& options) const;
  nn::BlockSettings Settings(const Options& options) const;
  void Embed(View<const T> weights, View<const T> pixels, Workspace& workspace, View<T> x) const;
  void EmbedBackward(View<const T> weights, Workspace& workspace, View<T> dx, View<T> gradients) const;
  void OutputForward(View<const T> weights, Workspace& workspace, View<T> logits) const;
  void OutputBackward(View<const T> weights, View<const T> dlogits, Workspace& workspace, View<T> dtokens,
                      View<T> gradients) const;

  model::VitConfig config_;
  NetworkParameters parameters_;
  Tensor<T> positions_;  // [patches, D], if positions are computed, not learned
  std::optional<nn::RotaryTable> rotary_;
};

}  // namespace qkv::train
