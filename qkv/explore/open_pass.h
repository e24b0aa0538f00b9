// Forward and backward passes with access to each head's queries, keys, scores and weights: they are changed by edits
// and kept on request, and the gradient of a class's logit by the weights is available. Not here: passes without edits,
// which are the engine's own (explore/passes.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "qkv/explore/edits.h"
#include "qkv/explore/open_model.h"
#include "qkv/nn/training/open_attention.h"

namespace qkv::explore {

/// Scratch memory of passes, kept from one to the next.
struct OpenWorkspace {
  train::Network<float>::Workspace network;
};

class OpenPass final : public nn::OpenAttention {
 public:
  /// All arguments outlive the pass. It pauses (core/pause.h) between blocks, and ends there if it is cancelled.
  OpenPass(OpenModel& model, const Edits& edits, OpenWorkspace& workspace)
      : model_(model), edits_(edits), workspace_(workspace) {}

  /// pixels: [1, channels, height, width] of the model's own size. Keeps the weights of the blocks `kept`. Returns the
  /// logits, [outputs]. Throws Error for another size, if the pass exceeds MemoryLimit(), or if logits are not finite.
  Tensor<float> Forward(View<const float> pixels, std::span<const int64_t> kept = {});

  /// The last pass's attention weights in the kept blocks, [kept, H, N, N].
  const Tensor<float>& attention() const { return attention_; }
  Tensor<float> TakeAttention() { return std::move(attention_); }
  /// The last pass's tokens after a block, [N, D]; after the last block with the final norm.
  View<const float> Tokens(int64_t block) const;

  /// Relevance of each token for a logit (Chefer, Gur and Wolf 2021, "Generic Attention-model Explainability", rule of
  /// self-attention): the class token's row of R = (I + Ā_L) … (I + Ā_1), or without a class token the mean of the
  /// patches' rows; Ā is the mean over heads of the positive part of (∂logit/∂A) ∘ A. [N]. Throws as Forward, and for
  /// an unknown class.
  Tensor<float> Relevance(View<const float> pixels, int64_t output);

  void Forward(const nn::OpenOperands& operands, View<float> joined) override;
  void Backward(const nn::OpenOperands& operands, View<const float> djoined, View<float> dquery, View<float> dkey,
                View<float> dvalue) override;

 private:
  struct Head;
  void Prepare(const nn::OpenOperands& operands, int64_t h, Head& head);
  void HeadBackward(const nn::OpenOperands& operands, int64_t h, View<const float> djoined, View<float> dquery,
                    View<float> dkey, View<float> dvalue, View<float> carried);
  void PrepareFactors(const nn::OpenOperands& operands);
  void RequirePass(View<const float> pixels, int64_t kept, bool gradients);
  Tensor<float> Run(View<const float> pixels, bool gradients);

  OpenModel& model_;
  const Edits& edits_;
  OpenWorkspace& workspace_;
  std::vector<int64_t> kept_;  // blocks
  Tensor<float> attention_;    // [kept, H, N, N]
  Tensor<bool> visible_;       // [1, 1, N, N], or empty
  Tensor<float> row_;          // [N]: that of R so far, of a backward pass
};

}  // namespace qkv::explore
