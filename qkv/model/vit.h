// A Vision Transformer of any family: its layers, built from bound tensors, and the forward pass.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "qkv/core/arena.h"
#include "qkv/model/checkpoint/tensor_names.h"
#include "qkv/model/config/vit_config.h"
#include "qkv/nn/block.h"
#include "qkv/nn/patch_embed.h"
#include "qkv/nn/pool.h"

namespace qkv::model {

/// What a forward pass writes; empty views are not computed, and neither are blocks that nothing here needs.
template <typename T>
struct Outputs {
  /// What leaves a block.
  struct Hidden {
    int64_t index;  // 0: the embedded tokens; L: after block L, counted from 1
    View<T> out;    // [B, N, D]
  };
  /// Attention weights of a block.
  struct Attention {
    int64_t block;                  // from 0
    nn::WeightsRequest<T> request;  // rows, and where their weights go
  };
  View<T> logits = {};                    // [B, C], without a classifier the pooled [B, D]
  View<T> pooled = {};                    // [B, pooled_width], what the classifier sees
  View<T> tokens = {};                    // [B, N, D] after the final norm
  std::vector<Hidden> hidden = {};        // what leaves blocks
  std::vector<Attention> attention = {};  // weights of blocks
};

/// Scratch memory of one caller; a second forward pass of the same shape allocates nothing. Not shared between threads.
template <typename T>
struct Workspace {
  Arena arena;                              // of activations
  uint64_t model = 0;                       // whose `positions` and `places` these are
  int64_t grid_height = 0, grid_width = 0;  // and for which grid
  Tensor<T> positions;                      // [grid_height · grid_width, D], resampled
  Tensor<T> places;                         // [depth, 2, H, N, r], what scores of places alone are made of
  std::optional<nn::RotaryTable> rotary;
};

/// How a checkpoint becomes layers. The savings are exact up to rounding; each can be switched off to measure it.
struct BuildOptions {
  simd::Precision precision = simd::Precision::kFloat32;  // of the blocks' linear layers
  bool fold_norms = true;           // gamma and beta of a LayerNorm into the linear layer behind it
  bool fold_scales = true;          // LayerScale into the linear layer before it
  bool fold_key_value_bias = true;  // key biases cancel in the softmax, value biases go into the projection's
  bool read_rows = true;            // the last block computes only the tokens that are read
  bool merge = true;                // float only: M for W_Q and W_K where attention::CheapestPlan finds that it pays
  bool absorb = true;               // attention for few rows in the order that attention::CheapestPlan finds
};

/// How a block's attention is run: its kind, which may be merged where the checkpoint's is not, whether in the order
/// for few rows too, and whether there are mostly fewer queries than keys, so that one product does not make both.
struct AttentionWay {
  nn::AttentionKind kind = nn::AttentionKind::kSeparate;  // as built, which may be merged
  bool absorbs = false;                                   // the order for few rows is there
  bool fewer_queries = false;                             // mostly fewer queries than keys
  bool rotary = false;                                    // queries and keys are rotated
};

/// Layers and forward pass, without preprocessing and labels. T is float, or double in checks.
template <typename T>
class Vit {
 public:
  Vit() = default;
  /// `tensors` is what Bind returned. Throws Error when a tensor holds NaN or infinity.
  Vit(const VitConfig& config, const std::vector<BoundTensor>& tensors, const BuildOptions& options = {});

  /// pixels: [B, channels, height, width], dense, any size that has a patch: positions are interpolated as the family
  /// does. An image's result does not depend on what shares its batch. Throws Error when the shapes do not fit, when
  /// the pass would take more than MemoryLimit(), and when the layers are used where they are mapped and their file
  /// changed.
  void Forward(View<const T> pixels, Workspace<T>& workspace, const Outputs<T>& outputs) const;

  /// Attention weights of one block from the tokens that enter it, [B, N, D]: those of Outputs::hidden with its index.
  /// Where scores come from places, the grid is that of the workspace's last forward pass if that had N tokens, else
  /// the trained one.
  void BlockWeights(View<const T> tokens, int64_t block, Workspace<T>& workspace,
                    std::span<const nn::WeightsRequest<T>> requests) const;

  /// Tokens of an image of this size. Throws Error when the family refuses the size.
  int64_t TokensFor(int64_t height, int64_t width) const;

  /// The finished layers as tensors, which point into this model, for another process to restore. `options` are those
  /// that it was built with.
  std::vector<io::StoredTensor> Store(const BuildOptions& options) const;
  /// From what Store gave for the same configuration and options under the same ActiveIsa(). What is aligned is used
  /// where it lies. Throws Error when a tensor is missing, left over or misshaped.
  static Vit Restore(const VitConfig& config, const BuildOptions& options,
                     std::shared_ptr<const io::SafeTensors> tensors);

  const VitConfig& config() const { return config_; }  // as the checkpoint says
  /// Memory of the linear layers' weights as they are packed.
  int64_t weight_bytes() const;
  /// An estimate of the memory of a pass, in bytes: pixels and everything that is computed of them, without what
  /// Outputs asks for.
  double PassBytes(int64_t images, int64_t height, int64_t width) const;

 private:
  void Run(View<const T> pixels, Workspace<T>& workspace, const Outputs<T>& outputs) const;
  View<T> Embed(View<const T> pixels, Workspace<T>& workspace) const;
  /// Brings what depends on the grid into the workspace, where the model does not hold it itself.
  void PrepareGrid(int64_t grid_height, int64_t grid_width, Workspace<T>& workspace) const;
  void FillPlaces(int64_t grid_height, int64_t grid_width, Tensor<T>* places) const;
  View<const T> PlacesOf(int64_t block, const Workspace<T>& workspace) const;
  /// For a grid that the workspace is prepared for, or the trained one.
  const nn::RotaryTable* RotaryFor(int64_t tokens, const Workspace<T>& workspace) const;
  bool IsPreparedFor(int64_t tokens, const Workspace<T>& workspace) const {
    return workspace.model == id_ && tokens == config_.prefix() + workspace.grid_height * workspace.grid_width;
  }
  bool IsTrainedGrid(int64_t grid_height, int64_t grid_width) const {
    return grid_height == config_.grid_height() && grid_width == config_.grid_width();
  }
  void Classify(View<const T> tokens, const Outputs<T>& outputs, Arena& arena) const;
  View<T> PoolTokens(View<const T> tokens, Arena& arena) const;
  int64_t RowsRead(const Outputs<T>& outputs, int64_t block, int64_t tokens) const;
  int64_t BlocksRead(const Outputs<T>& outputs) const;
  int64_t ImagesTogether(int64_t images, int64_t tokens) const;
  static uint64_t NextId();
  /// What is computed from the configuration alone.
  void ComputeRotary();
  /// Tells each layer's weights which come next.
  void LinkWeights();
  /// Shows `archive` every part of `vit`: the one list for Store and Restore.
  template <typename Archive, typename Self>
  static void Parts(Archive& archive, Self& vit, const BuildOptions& options);

  VitConfig config_;
  bool read_rows_ = true;
  uint64_t id_ = 0;                                // tells this model from all others of the process
  Tensor<T> prefix_;                               // [prefix, D], positions added
  Tensor<T> positions_;                            // [patches, D], or empty
  std::shared_ptr<const nn::RotaryTable> rotary_;  // of the trained grid, or null
  nn::PatchEmbed<T> patch_embed_;
  nn::Norm<T> norm_pre_;
  std::vector<nn::Block<T>> blocks_;
  nn::Norm<T> norm_;
  nn::AttentionPool<T> attention_pool_;
  nn::Linear<T> pooler_;
  nn::Norm<T> fc_norm_, head_norm_;
  nn::Linear<T> head_, head_dist_;
  std::shared_ptr<const io::SafeTensors> restored_from_;  // whose bytes the layers use where they lie; or null
};

}  // namespace qkv::model
