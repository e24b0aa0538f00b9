// A model that writes texts about images, such as captions or the line that a photo shows: an encoder of images, and a
// decoder whose cross-attention reads the encoder's tokens.
//
//   const auto model = qkv::model::CaptionModel::Load("vit-gpt2-image-captioning");
//   qkv::model::CaptionWorkspace workspace;
//   model.ReadSource(model.image().Pixels(photo), workspace);
//   qkv::model::Decoder<float> decoder(model.decoder());
//   const auto texts = qkv::model::Generate(decoder, {{start}}, &workspace.source, settings);  // ids
//
// Several threads may use one model. Not here: tokenizers, which make texts of the ids (qkv/text).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "qkv/model/model.h"
#include "qkv/model/sequence/sequence_model.h"

namespace qkv::model {

/// Requested outputs of a pass of a CaptionModel. Empty views are not computed.
struct CaptionOutputs {
  View<float> encoder_tokens = {};                                // [B, N, D of the encoder], after its final norm
  View<float> tokens = {};                                        // [B, T, D], after the decoder's final norm
  View<float> logits = {};                                        // [B, T, outputs]
  std::vector<Outputs<float>::Attention> encoder_attention = {};  // of the encoder, [B, H, N, N]
  std::vector<Outputs<float>::Attention> attention = {};          // of the decoder, [B, H, T, T]
  std::vector<Outputs<float>::Attention> cross_attention = {};    // of its cross-attention, [B, H, T, N]
  nn::Probe<float>* encoder_probe = nullptr;                      // sees the encoder's activations, or null
  nn::Probe<float>* probe = nullptr;                              // the decoder's
};

/// Scratch memory of one caller of CaptionModel, not shared between threads.
struct CaptionWorkspace {
  Workspace<float> image;           // of the encoder
  Arena arena;                      // of the decoder
  Tensor<float> tokens, projected;  // of the encoder; the same in the width of the decoder
  Tensor<int64_t> lengths;          // [B], of the encoder's tokens
  Source<float> source;             // the decoder's view of the encoder's tokens
};

/// Const members may be called from several threads.
class CaptionModel {
 public:
  /// Loads a folder, as Model::Load. The cache holds the encoder only. Throws Error that names the file and what is
  /// wrong with it; also if the folder has no decoder.
  static CaptionModel Load(const std::filesystem::path& path, const BuildOptions& options = {},
                           const Cache& cache = {});
  /// Builds the model of an open checkpoint, which may be closed afterwards. Throws Error as Load.
  explicit CaptionModel(const Checkpoint& checkpoint, const BuildOptions& options = {}, const Cache& cache = {});

  /// The encoder of images with its preprocessing.
  const Model& image() const { return image_; }
  /// As above, for Model::SetInputSize.
  Model& image() { return image_; }
  /// The decoder, which writes ids.
  const SequenceModel<float>& decoder() const { return *decoder_; }
  /// Settings of the whole model in its files: class, kind of decoder, settings of generation.
  const CaptionDecoder& description() const { return description_; }

  /// Encodes pixels [B, channels, height, width] as the decoder's source, in workspace.source; the encoder's tokens are
  /// in workspace.tokens. Throws Error as Model::Forward.
  void ReadSource(View<const float> pixels, CaptionWorkspace& workspace,
                  std::span<const Outputs<float>::Attention> attention = {}, nn::Probe<float>* probe = nullptr) const;
  /// The second half of it: reads tokens [B, N, D] of the encoder, dense.
  void ReadTokens(View<const float> tokens, CaptionWorkspace& workspace) const;

  /// One pass with the outputs of every token. decoder_ids: [B, T], dense. Throws Error if shapes do not fit or an id
  /// is not in the vocabulary.
  void Forward(View<const float> pixels, View<const int32_t> decoder_ids, CaptionWorkspace& workspace,
               const CaptionOutputs& outputs) const;

 private:
  CaptionDecoder description_;
  Model image_;
  nn::Linear<float> projection_;
  std::unique_ptr<const SequenceModel<float>> decoder_;
};

}  // namespace qkv::model
