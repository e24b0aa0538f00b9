// A look into a forward pass: its activations by name, as soon as they are computed, to be kept or changed. Without a
// probe nothing of this costs time. Not here: gradients (training/open_attention.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/core/tensor.h"
#include "qkv/nn/block_config.h"

namespace qkv::nn {

/// Where in a model an activation is: "blocks.3.attn.q", or outside of the blocks "embed".
struct Site {
  int64_t block = -1;           // from 0, or −1
  std::string_view layer = {};  // "attn.", "cross.", "mlp.", or empty
  std::string_view name = {};

  std::string Name() const;
};

/// Shapes are [B, …] of one pass, whose tokens are all computed:
///   resid_pre, resid_mid, resid_post  [B, N, D]     the tokens before, between and after the layers of a block
///   norm1, norm_cross, norm2          [B, N, D]     outputs of norms
///   attn.q, attn.k, attn.v            [B, H, N, r], [B, G, N, r], [B, G, N, E]: as the scores and the sums use them
///   attn.scores                       [B, H, N, N]  before the softmax; −infinity where a query sees no key
///   attn.weights                      [B, H, N, N]  after it; of two maps their difference
///   attn.heads                        [B, H, N, E]  sums of values
///   attn.out, mlp.out                 [B, N, D]     what the layer adds to the tokens, with LayerScale
///   mlp.hidden                        [B, N, M]     after the activation or gate
/// and those of cross-attention as those of attention. Of two maps (AttentionConfig::maps) each has queries, keys and
/// scores of its own: [B, 2 · H, N, r / 2], [B, 2 · G, N, r / 2] and [B, 2 · H, N, N], those of the first map before
/// those of the second. N leaves out tokens that enter at a later block (queries of EoMT), and a model that adds
/// positions between blocks has another resid_pre than the resid_post before.
template <typename T>
class Probe {
 public:
  virtual ~Probe() = default;
  /// What nobody asks for may be left out, or be computed in another way.
  virtual bool Wants(const Site& site) const = 0;
  /// The pass goes on with what is in `activation` afterwards. Any strides with a dense last axis.
  virtual void Visit(const Site& site, View<T> activation) = 0;
};

/// A probe at a layer of a block.
template <typename T>
struct Tap {
  Probe<T>* probe = nullptr;  // or null
  Site at = {};               // its name is filled in

  bool Wants(std::string_view name) const { return probe != nullptr && probe->Wants({at.block, at.layer, name}); }
  void operator()(std::string_view name, View<T> activation) const {
    if (Wants(name)) probe->Visit({at.block, at.layer, name}, activation);
  }
  Tap In(std::string_view layer) const { return {probe, {at.block, layer}}; }
};

/// The names of all activations of a block, in the order of a pass.
std::vector<std::string> ActivationNames(const BlockConfig& config, int64_t block);

}  // namespace qkv::nn
