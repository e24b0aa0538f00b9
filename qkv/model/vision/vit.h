// A Vision Transformer of any family: its layers, built from bound tensors, and the forward pass. Not here:
// preprocessing and labels (model/model.h).
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "qkv/core/arena.h"
#include "qkv/model/blocks/options.h"
#include "qkv/model/config/vit_config.h"
#include "qkv/model/layout/bound_tensor.h"
#include "qkv/model/vision/waiting_queries.h"
#include "qkv/nn/block.h"
#include "qkv/nn/mask_head.h"
#include "qkv/nn/patch_embed.h"
#include "qkv/nn/pool.h"

namespace qkv::model {

/// Scratch memory of one caller, not shared between threads. A second forward pass of the same shape allocates nothing.
template <typename T>
struct Workspace {
  Arena arena;                                  // of activations
  uint64_t model = 0;                           // the model that `positions` and `places` belong to
  int64_t grid_height = 0, grid_width = 0;      // the grid that they belong to
  Tensor<T> positions;                          // [grid_height · grid_width, D], resampled
  Tensor<T> block_positions;                    // [depth − 1, N, D], resampled
  Tensor<T> relative_biases;                    // tables of another grid than the model's, see relative_bias.h
  Tensor<T> places;                             // [depth, 2, H, N, r], for positional attention kinds
  std::vector<nn::RotaryTable> rotary;          // of another grid than the trained one
  std::vector<nn::RotaryTable> waiting_rotary;  // likewise, for blocks in which query tokens wait

  /// Bytes of the arena and the tensors.
  int64_t bytes() const {
    const int64_t elements = positions.size() + block_positions.size() + relative_biases.size() + places.size();
    return static_cast<int64_t>(arena.peak_bytes()) + elements * static_cast<int64_t>(sizeof(T));
  }
};

/// Layers and forward pass, without preprocessing and labels. T is float, or double in checks.
template <typename T>
class Vit {
 public:
  Vit() = default;
  /// tensors: the result of Bind. Throws Error if a tensor contains NaN or infinity.
  Vit(const VitConfig& config, const std::vector<BoundTensor>& tensors, const BuildOptions& options = {});

  /// pixels: [B, channels, height, width], dense, of any size with at least one patch; positions are interpolated as in
  /// the family's library. The result of an image does not depend on the other images of its batch. Throws Error if the
  /// shapes do not fit, if the pass would exceed MemoryLimit(), or if the layers are mapped and their file changed;
  /// Cancelled between blocks, after which the workspace is as good as new.
  void Forward(View<const T> pixels, Workspace<T>& workspace, const Outputs<T>& outputs) const;

  /// Attention weights of one block from its input tokens, [B, N, D]: those of Outputs::hidden with the block's index.
  /// If attention depends on positions, the grid is that of the workspace's last forward pass if that had N tokens,
  /// otherwise the trained one.
  void BlockWeights(View<const T> tokens, int64_t block, Workspace<T>& workspace,
                    std::span<const nn::WeightsRequest<T>> requests) const;

  /// Number of tokens of an image of this size. Throws Error if the family rejects the size.
  int64_t TokensFor(int64_t height, int64_t width) const;

  /// The built layers as tensors, which refer to this model's memory, to be restored by another process. options: those
  /// that it was built with.
  std::vector<io::StoredTensor> Store(const BuildOptions& options) const;
  /// Restores the result of Store for the same configuration and options under the same ActiveIsa(). Aligned tensors
  /// are used without a copy. Throws Error if a tensor is missing, unused or misshaped.
  static Vit Restore(const VitConfig& config, const BuildOptions& options,
                     std::shared_ptr<const io::SafeTensors> tensors);

  const VitConfig& config() const { return config_; }  // of the checkpoint
  /// Memory of the packed weights of all linear layers, in bytes.
  int64_t weight_bytes() const;
  /// Estimated memory of a pass in bytes: pixels and everything computed from them, without requested Outputs.
  double PassBytes(int64_t images, int64_t height, int64_t width) const;

 private:
  void Run(View<const T> pixels, Workspace<T>& workspace, const Outputs<T>& outputs) const;
  /// [B, N, D], without query tokens.
  View<T> Embed(View<const T> pixels, Workspace<T>& workspace) const;
  WaitingQueries waiting() const { return {config_.query_begin(), config_.query_tokens}; }
  View<const T> queries() const { return prefix_.view().slice(0, config_.query_begin(), config_.prefix()); }
  /// Computes the data that depend on the grid into the workspace, unless the model holds them for this grid.
  void PrepareGrid(int64_t grid_height, int64_t grid_width, Workspace<T>& workspace) const;
  void FillPlaces(int64_t grid_height, int64_t grid_width, Tensor<T>* places) const;
  View<const T> BlockPlaces(int64_t block, const Workspace<T>& workspace) const;
  /// The table for the grid that the workspace is prepared for, or for the trained grid.
  const nn::RotaryTable* RotaryFor(int64_t block, int64_t tokens, const Workspace<T>& workspace) const;
  /// The biases of the first `rows` queries, [1, H, rows, N], of the grid that the workspace is prepared for, in
  /// `room`, [1, H, N, N], which may have those of all blocks already; or nothing.
  View<const T> BlockBiases(int64_t block, int64_t rows, bool filled, const Workspace<T>& workspace,
                            View<T> room) const;
  /// Memory of the arena for BlockBiases, or nothing.
  View<T> NewBiases(int64_t tokens, Workspace<T>& workspace) const;
  /// Whether the tables of biases differ from the model's on this grid.
  bool ResamplesBiases(int64_t grid_height, int64_t grid_width) const;
  bool IsPreparedFor(int64_t tokens, const Workspace<T>& workspace) const {
    return workspace.model == id_ && tokens == config_.prefix() + workspace.grid_height * workspace.grid_width;
  }
  bool IsTrainedGrid(int64_t grid_height, int64_t grid_width) const {
    return grid_height == config_.grid_height() && grid_width == config_.grid_width();
  }
  /// Resamples those of another grid than the trained one.
  void FillBlockPositions(int64_t grid_height, int64_t grid_width, Tensor<T>* positions) const;
  /// Adds the positions that follow this block, if there are any, to x: [B, N, D].
  void AddBlockPositions(int64_t block, const Workspace<T>& workspace, View<T> x) const;
  /// The heads of the detection tokens. tokens: [B, N, D] after the final norm, N may be the prefix alone.
  void Detect(View<const T> tokens, const Outputs<T>& outputs, Arena& arena) const;
  /// The heads of the query tokens. tokens: [B, N, D] after the final norm.
  void Segment(View<const T> tokens, int64_t grid_height, int64_t grid_width, const Outputs<T>& outputs,
               Arena& arena) const;
  void Classify(View<const T> tokens, const Outputs<T>& outputs, Arena& arena) const;
  View<T> PoolTokens(View<const T> tokens, Arena& arena) const;
  int64_t RowsRead(const Outputs<T>& outputs, int64_t block, int64_t tokens) const;
  int64_t BlocksRead(const Outputs<T>& outputs) const;
  int64_t ImagesTogether(int64_t images, int64_t tokens) const;
  static uint64_t NextId();
  /// Computes the rotary tables of the trained grid.
  void ComputeRotary();
  /// Links each layer's weights to the next, for prefetching.
  void LinkWeights();
  /// Visits every part of `vit` with `archive`: one list for both Store and Restore.
  template <typename Archive, typename Self>
  static void Parts(Archive& archive, Self& vit, const BuildOptions& options);

  VitConfig config_;
  bool read_rows_ = true;
  uint64_t id_ = 0;               // unique among the models of the process
  Tensor<T> prefix_;              // [prefix, D], positions added
  Tensor<T> positions_;           // [patches, D], or empty
  Tensor<T> block_positions_;     // [depth − 1, N, D], or empty
  Tensor<T> relative_biases_;     // tables of all blocks or of one, [tables, H, R], see relative_bias.h; or empty
  Tensor<T> rotary_frequencies_;  // of PatchRotary::kMixed, [2, depth, H, E / 2], or empty
  // Tables of the trained grid, see MakeRotaryTables; or null. waiting_: for blocks in which query tokens wait, without
  // them.
  std::shared_ptr<const std::vector<nn::RotaryTable>> rotary_, waiting_rotary_;
  nn::PatchEmbed<T> patch_embed_;
  nn::Norm<T> norm_pre_;
  std::vector<nn::Block<T>> blocks_;
  nn::Norm<T> norm_;
  nn::AttentionPool<T> attention_pool_;
  nn::Linear<T> pooler_;
  nn::Norm<T> fc_norm_;
  nn::Linear<T> projection_;
  nn::Norm<T> head_norm_;
  nn::Linear<T> head_, head_dist_;
  std::array<nn::Linear<T>, 3> class_head_, box_head_;
  nn::MaskHead<T> mask_head_;
  std::shared_ptr<const io::SafeTensors> restored_from_;  // owns the bytes that mapped layers use; or null
};

}  // namespace qkv::model
