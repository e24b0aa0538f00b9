// A model over a bag of tiles in training: forward and backward passes over one flat buffer of weights, and the answer
// of a Transformer in memory that does not grow with its depth. Blocks are those of train/network/blocks.h. Not here:
// the loss, and the optimiser.
#pragma once

#include <cstdint>
#include <optional>

#include "qkv/mil/config.h"
#include "qkv/mil/gated_pool.h"
#include "qkv/mil/head.h"
#include "qkv/nn/rotary.h"
#include "qkv/train/network/blocks.h"
#include "qkv/train/network/initialise.h"
#include "qkv/train/network/parameter_views.h"

namespace qkv::mil {

/// Tiles of one bag.
template <typename T>
struct BagInput {
  View<const T> features;     // [N, inputs], dense
  View<const double> places;  // [N, 2], row and column in tiles, dense; may be empty without positions
};

/// [N, 2]: rows and columns of tiles at these coordinates, in sides, from the least on. Throws Error for side < 1.
Tensor<double> TilePlaces(std::span<const std::array<int64_t, 2>> coords, int64_t side);

template <typename T>
class MilNetwork {
 public:
  using Options = train::NetworkOptions;  // dropout: also of h in kGated, and of the gates

  /// Memory of one caller: what Forward keeps for Backward, and scratch. Not thread-safe.
  class Workspace {
   public:
    size_t peak_bytes() const { return arena_.peak_bytes(); }

   private:
    friend class MilNetwork;

    Arena arena_;
    Options options_;
    BagInput<T> input_;  // of the last forward pass, for Backward, or empty
    View<T> tokens_;     // [prefix + N, D], input of the blocks
    std::optional<nn::RotaryTable> rotary_;
    train::BlocksCache<T> blocks_;
    View<T> normed_, moments_;  // input of pooling
    GatedPoolCache<T> pool_;
    View<T> pooled_;  // [1, D]
  };

  /// Throws Error as Validate.
  explicit MilNetwork(const MilConfig& config);

  const MilConfig& config() const { return config_; }
  /// Layout of the buffers of weights and gradients, [P].
  const train::ParameterLayout& layout() const { return layout_; }

  /// Fills weights [P]: blocks as train::Initialise, the rest uniform in ±1/√inputs with biases of 0.
  void Initialise(uint64_t seed, View<T> weights) const;

  /// logits: [1, C], dense. Throws Error if the shapes do not fit.
  void Forward(View<const T> weights, const BagInput<T>& input, const Options& options, Workspace& workspace,
               View<T> logits) const;
  /// Accumulates the gradient of the loss into gradients [P]. dlogits is the gradient with respect to the logits of
  /// this workspace's last Forward; its weights and input must still be unchanged in memory.
  void Backward(View<const T> weights, View<const T> dlogits, Workspace& workspace, View<T> gradients) const;

  /// The answer of kTransformer. Pooling by attention: K = 1. With a class token, K is the number of heads: its scores
  /// and weights of the tiles in the last block, whose sum is less than 1 by what the token keeps for itself;
  /// differential attention's scores are its weights.
  Answer Infer(View<const T> weights, const BagInput<T>& input, Workspace& workspace) const;

  /// Bytes of a forward and backward pass over this many tiles, about.
  double TrainingBytes(int64_t tiles, bool checkpointing) const;

 private:
  template <typename U>
  GatedPoolParameters<U> PoolParameters(View<U> buffer) const;
  template <typename U>
  nn::LinearParameters<U> LinearAt(const char* of_gated, const char* of_transformer, View<U> buffer) const;
  template <typename U>
  View<U> OfBlocks(View<U> buffer) const;
  nn::BlockSettings Settings(const Options& options, const Workspace& workspace) const;
  void CheckInput(const BagInput<T>& input) const;
  void Embed(View<const T> weights, const BagInput<T>& input, Workspace& workspace, View<T> tokens) const;
  void Pool(View<const T> weights, View<const T> last, Workspace& workspace, View<T> logits) const;
  void ReadTokenScores(const nn::BlockCache<T>& block, int64_t N, Answer* answer) const;

  MilConfig config_;
  std::optional<train::NetworkParameters> blocks_;  // kTransformer: blocks, norm and head
  train::ParameterLayout layout_;
  int64_t blocks_begin_ = 0;  // their first element in a buffer
  model::SequenceConfig sequence_;
};

}  // namespace qkv::mil
