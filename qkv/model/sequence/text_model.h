// A text model: an encoder that embeds texts, a decoder that writes them, or both.
//
//   const auto model = qkv::model::TextModel::Load("all-MiniLM-L6-v2");
//   const Tensor<float> vectors = model.Embed(ids);       // ids of each text, by its tokenizer; [texts, width]
//
// Several threads may use one model. Not here: tokenizers, which make the ids (qkv/text).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "qkv/model/checkpoint/text_checkpoint.h"
#include "qkv/model/sequence/sequence_model.h"

namespace qkv::model {

/// Inputs of a pass of a TextModel. Empty views are defaults.
struct TextInputs {
  View<const int32_t> ids = {};             // [B, N], of the encoder, or of a decoder alone
  View<const bool> mask = {};               // [B, N], false for padding; empty: all are read
  View<const int32_t> types = {};           // [B, N], types of the tokens; empty: 0
  View<const int32_t> decoder_ids = {};     // [B, T], of a decoder that reads the encoder's tokens
  const nn::CrossWeights* cross = nullptr;  // what replaces cross-attention's softmax, or null
};

/// Requested outputs of a pass. Empty views are not computed.
struct TextOutputs {
  View<float> encoder_tokens = {};  // [B, N, D], last hidden states of an encoder-decoder's encoder
  View<float> tokens = {};          // [B, N or T, D], those of the decoder, or of an encoder alone
  View<float> pooled = {};          // [B, pooler_width], of an encoder with a pooler
  View<float> logits = {};          // [B, N or T, outputs], of a decoder
  std::vector<Outputs<float>::Attention> encoder_attention = {};  // of an encoder-decoder's encoder
  std::vector<Outputs<float>::Attention> attention = {};          // of the decoder, or of an encoder alone
  std::vector<Outputs<float>::Attention> cross_attention = {};    // of the decoder over the encoder's tokens
  std::vector<Outputs<float>::Hidden> encoder_hidden = {};        // inputs of its encoder's blocks, [B, N, D]
  std::vector<Outputs<float>::Hidden> hidden = {};                // likewise of the decoder, or of an encoder alone
  nn::Probe<float>* encoder_probe = nullptr;  // of an encoder-decoder's encoder, see SequenceOutputs; or null
  nn::Probe<float>* probe = nullptr;          // of the decoder, or of an encoder alone; or null
};

/// Scratch memory of one caller of TextModel, not shared between threads.
struct TextWorkspace {
  Arena arena;              // of activations
  Tensor<float> tokens;     // of the encoder
  Tensor<int64_t> lengths;  // [B], of the encoder's tokens
  Source<float> source;     // the decoder's view of the encoder's tokens
};

/// Const members may be called from several threads.
class TextModel {
 public:
  /// Loads a folder. Throws Error as TextCheckpoint::Open, and if a tensor contains NaN or infinity.
  static TextModel Load(const std::filesystem::path& path, const BuildOptions& options = {});
  /// Builds the model of an open checkpoint, which may be closed afterwards. Throws Error likewise.
  explicit TextModel(const TextCheckpoint& checkpoint, const BuildOptions& options = {});

  /// The built layers as tensors, which refer to this model's memory, to be restored by another process. options: those
  /// that it was built with.
  std::vector<io::StoredTensor> Store(const BuildOptions& options) const;
  /// Restores the result of Store for the same description and options under the same ActiveIsa(). Aligned tensors are
  /// used without a copy. Throws Error if a tensor is missing, unused or misshaped.
  static TextModel Restore(const TextDescription& description, const BuildOptions& options,
                           std::shared_ptr<const io::SafeTensors> tensors);

  const TextDescription& description() const { return description_; }  // of the checkpoint
  bool has_encoder() const { return encoder_ != nullptr; }             // reads texts
  bool has_decoder() const { return decoder_ != nullptr; }             // writes texts
  /// Memory of the packed weights of all linear layers, in bytes.
  int64_t weight_bytes() const;
  /// The part that reads texts. Throws Error if the model has none.
  const SequenceModel<float>& encoder() const;
  /// The part that writes texts. Throws Error if the model has none.
  const SequenceModel<float>& decoder() const;

  /// Greatest number of ids of a text that the model reads.
  int64_t text_length() const;
  /// Width of a text's vector. Throws Error if the model does not embed texts: it has a decoder.
  int64_t width() const;

  /// One vector a text, as description().sentence says: [texts, width]. ids: of each text, 1 to text_length(). Texts of
  /// similar lengths are computed together, on all cores, and none depends on the others. prompt: number of tokens of
  /// sentence.prompt at the beginning of each, for a model that does not pool them. Throws Error that names the text if
  /// an id is not in the vocabulary, if nothing follows its prompt, or if a result is not finite.
  Tensor<float> Embed(std::span<const std::vector<int32_t>> ids, int64_t prompt = 0) const;

  /// One pass over padded batches, with the outputs of every token. Throws Error if shapes do not fit, an id is not in
  /// the vocabulary, a requested output does not exist, or a mask hides a whole text. Padding of a source must be at
  /// the end.
  void Forward(const TextInputs& inputs, TextWorkspace& workspace, const TextOutputs& outputs) const;

  /// The encoder's tokens of padded texts as a decoder's source, in workspace.source. Throws Error likewise, and as
  /// nn::CrossWeights::Validate.
  void ReadSource(const TextInputs& inputs, TextWorkspace& workspace, View<float> encoder_tokens = {},
                  std::span<const Outputs<float>::Attention> attention = {},
                  std::span<const Outputs<float>::Hidden> hidden = {}, nn::Probe<float>* probe = nullptr) const;

 private:
  TextModel() = default;  // to be restored

  TextDescription description_;
  std::unique_ptr<const SequenceModel<float>> encoder_, decoder_;
};

}  // namespace qkv::model
