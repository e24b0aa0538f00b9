// Inference with sequence models: logits and tokens of whole sequences, and what cross-attention reads. Not here: token
// by token (decoder.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/core/arena.h"
#include "qkv/core/tensor.h"
#include "qkv/io/safetensors.h"
#include "qkv/model/blocks/options.h"
#include "qkv/model/checkpoint/sequence_checkpoint.h"
#include "qkv/model/config/sequence_config.h"
#include "qkv/model/layout/bound_tensor.h"
#include "qkv/nn/block.h"
#include "qkv/nn/rotary.h"

namespace qkv::model {

/// Keys and values of a source's tokens, as the cross-attention of every block reads them.
template <typename T>
struct Source {
  std::vector<nn::KeyValueCache<T>> blocks;  // a cache per block
  int64_t entries = 0;                       // those in use are the first
  nn::CrossWeights weights = {};             // replaces cross-attention's softmax, in an experiment

  /// Entry i becomes the former entry rows[i], and there are rows.size().
  void Select(std::span<const int64_t> rows);
};

/// Inputs of a pass beside the tokens.
template <typename T>
struct SequenceInputs {
  View<const int32_t> types = {};  // [B, N], the type of each token; empty: all 0
  View<const bool> mask = {};      // [B, N], false for tokens that others do not attend to, or empty
  Source<T>* source = nullptr;     // what cross-attention reads, of B entries
};

/// Requested outputs of a pass. Empty views are not computed.
template <typename T>
struct SequenceOutputs {
  View<T> logits = {};                                               // [B, N, outputs], dense
  View<T> tokens = {};                                               // [B, N, D], dense, after the final norm
  View<T> pooled = {};                                               // [B, pooler_width], dense
  std::vector<typename Outputs<T>::Attention> attention = {};        // weights of blocks, [B, H, rows, N]
  std::vector<typename Outputs<T>::Attention> cross_attention = {};  // likewise over the source, [B, H, rows, N_source]
  std::vector<typename Outputs<T>::Hidden> hidden = {};              // inputs of blocks, [B, N, D], dense
  nn::Probe<T>* probe = nullptr;  // sees the activations of all blocks, "embed" and "norm"; or null
};

/// An encoder or decoder of tokens: one that `qkv train` produces from a task or a text, or a part of a TextModel.
template <typename T>
class SequenceModel {
 public:
  /// Uses only precision and foldings from `options`. Throws Error if a tensor contains NaN or infinity.
  SequenceModel(const SequenceConfig& config, const std::vector<BoundTensor>& tensors,
                const BuildOptions& options = {});
  /// Loads the folder of a training run. Throws Error as SequenceCheckpoint::Open and the constructor.
  static SequenceModel Load(const std::filesystem::path& folder, const BuildOptions& options = {});

  /// tokens: [B, N], dense, N from 1 to length; logits: [B, N, outputs], dense. A second call with the same shape and
  /// arena allocates nothing. The logits of a sequence do not depend on the other sequences. Throws Error if the shapes
  /// do not fit, or a token is not in the vocabulary.
  void Logits(View<const int32_t> tokens, Arena& arena, View<T> logits) const;
  /// As above, in new memory: [B, N, outputs].
  Tensor<T> Logits(View<const int32_t> tokens) const;

  /// The requested outputs for tokens [B, N], dense. Tokens that a mask hides have outputs too, which mean nothing.
  /// Throws Error as Logits, if an input's shape does not fit, or if a mask hides a whole sequence.
  void Forward(View<const int32_t> tokens, const SequenceInputs<T>& inputs, Arena& arena,
               const SequenceOutputs<T>& outputs) const;

  /// Keys and values of `source`, the last hidden states of an encoder, [B, N, S], for a decoder with cross-attention.
  /// lengths: [B], tokens of each entry, 1 to N. A `Source` of the same shape is filled again without an allocation.
  /// Throws Error if the model has no cross-attention or shapes do not fit.
  void ReadSource(View<const T> source, View<const int64_t> lengths, Arena& arena, Source<T>* read) const;

  /// The output of one token of each sequence, as config().pool selects it: out is [B, outputs], dense. tokens: [B, N],
  /// dense. mask: [B, N], dense, false for tokens that others do not attend to, such as padding; or empty. A causal
  /// model does not compute the tokens after the selected ones. Throws Error as Logits, if the model does not pool, or
  /// if a mask leaves nothing that the selected token could attend to.
  void Embed(View<const int32_t> tokens, View<const bool> mask, Arena& arena, View<T> out) const;

  const SequenceConfig& config() const { return config_; }  // widths, depth, length, vocabulary
  /// Memory of the packed weights of all linear layers, in bytes.
  int64_t weight_bytes() const;
  /// Those of them that a decoder reads for each token: all but the keys and values of a source, and the pooler.
  int64_t decoding_bytes() const;

  /// Where one sequence, 1 to length tokens, first gives NaN or infinity, such as "block 3 of 0 to 5", or the part
  /// before or after the blocks. Runs one pass per block.
  std::string WhereNotFinite(std::span<const int32_t> tokens) const;

 private:
  template <typename U>
  friend class Decoder;
  friend class TextModel;

  SequenceModel() = default;  // to be restored

  struct RunOptions {
    std::span<const int64_t> first = {};          // [B], position of each sequence's first token; empty: 0
    std::span<nn::KeyValueCache<T>> caches = {};  // one per block, or empty
    int64_t cached_begin = 0;                     // the first of the B cached sequences
    int64_t source_begin = 0, source_end = 0;     // entries of the source
    int64_t rows = 0;                             // the model's last block updates the last `rows` tokens; 0: all
    size_t blocks = std::numeric_limits<size_t>::max();  // runs the first `blocks` blocks
    View<const bool> mask = {};                          // [B, 1, 1, N], or empty
    View<const int64_t> key_lengths = {};                // [B], or empty
    View<const int32_t> types = {};                      // [B, N], or empty
    Source<T>* source = nullptr;
    const SequenceOutputs<T>* requests = nullptr;  // its attention weights
  };
  /// Returns x, [B, N, D].
  View<T> Run(View<const int32_t> tokens, Arena& arena, const RunOptions& options = {}) const;
  /// Writes the embedded tokens to x, [B, N, D].
  void Embedding(View<const int32_t> tokens, const RunOptions& options, View<T> x) const;
  /// Biases on the scores of N queries from position `first` on and all keys until then, [1, H, N, first + N]; or
  /// empty.
  View<const T> RelativeBias(int64_t first, int64_t N) const;
  /// Throws Error unless tokens are [B, N], dense, of 1 to length tokens.
  void RequireShape(View<const int32_t> tokens) const;
  /// How a block's attention is built.
  AttentionBuild BlockBuild(int64_t block) const;
  /// Derives computed positions, rotations and positions of all blocks from the configuration and the layers.
  void ComputePositions();
  static double PositionBytes(const SequenceConfig& config);  // of these
  /// Visits every part of `model` with `archive`: one list for storing and restoring. prefix: of their names.
  template <typename Archive, typename Self>
  static void Parts(Archive& archive, const std::string& prefix, Self& model, const BuildOptions& options);
  /// Final norm and head. x: [R, D], output of the last block.
  void OutputForward(View<const T> x, Arena& arena, View<T> logits) const;

  SequenceConfig config_;
  Tensor<T> tokens_;     // [V, D]
  Tensor<T> types_;      // [token types, D], or empty
  Tensor<T> positions_;  // [position_offset + length, D], or empty
  Tensor<T> relative_;   // [H, 2 · length − 1], see RelativeScores; or empty
  nn::Norm<T> norm_pre_;
  std::unique_ptr<const nn::RotaryTable> rotary_;
  Tensor<T> places_;  // [depth, 2, H, length, r], for positional attention kinds; or empty
  std::vector<nn::Block<T>> blocks_;
  nn::Norm<T> norm_, head_norm_;  // the same norm, for the tokens as outputs and, perhaps folded, for the head
  nn::Linear<T> head_, pooler_;
  std::shared_ptr<const io::SafeTensors> restored_from_;  // owns the bytes that mapped layers use; or null
};

}  // namespace qkv::model
