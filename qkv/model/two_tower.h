// A model with two towers, CLIP or SigLIP: images and texts as vectors of one space, and how well they fit.
//
//   const auto model = qkv::model::TwoTowerModel::Load("clip-vit-base-patch32");
//   const Tensor<float> texts = model.TextEmbeds(ids, mask);                     // [texts, width], unit length
//   const Tensor<float> images = model.ImageEmbeds(model.image().Pixels(photo));
//   const Tensor<float> logits = model.LogitsPerImage(images, texts);            // [images, texts]
//   const Tensor<float> probabilities = model.Probabilities(logits);
//
// Several threads may use one model. Not here: tokenizers, which make the ids (qkv/text).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "qkv/model/model.h"
#include "qkv/model/sequence/sequence_model.h"

namespace qkv::model {

/// Which towers are built. The files of both are checked in any case.
enum class Towers { kBoth, kImage, kText };

/// Scratch memory of one caller of TwoTowerModel, not shared between threads.
struct TowerWorkspace {
  Workspace<float> image;  // of ImageEmbeds
  Arena text;              // of TextEmbeds
};

/// A model with an image encoder and a text encoder. Const members may be called from several threads.
class TwoTowerModel {
 public:
  /// Loads a folder with both towers, as Model::Load. The cache holds the image tower only. Throws Error that names the
  /// file and what is wrong with it; also if the folder has no text encoder.
  static TwoTowerModel Load(const std::filesystem::path& path, Towers towers = Towers::kBoth,
                            const BuildOptions& options = {}, const Cache& cache = {});
  /// Builds the model of an open checkpoint, which may be closed afterwards. Throws Error as Load.
  explicit TwoTowerModel(const Checkpoint& checkpoint, Towers towers = Towers::kBoth, const BuildOptions& options = {},
                         const Cache& cache = {});

  bool has_image() const { return image_.has_value(); }  // false only for Towers::kText
  bool has_text() const { return text_ != nullptr; }     // false only for Towers::kImage
  /// The image tower with its preprocessing. Throws Error if it was not built.
  const Model& image() const;
  /// As above, for Model::SetInputSize.
  Model& image();
  /// The text tower. Throws Error if it was not built.
  const SequenceModel<float>& text() const;

  int64_t width() const { return width_; }                         // of an embedding
  int64_t text_length() const { return tower_.config.length; }     // greatest number of ids of a text
  int64_t vocabulary() const { return tower_.config.vocabulary; }  // ids are 0 to vocabulary − 1
  Matching matching() const { return tower_.matching; }            // softmax or sigmoid
  float logit_scale() const { return logit_scale_; }  // factor of the cosines: the exponential of the stored number
  float logit_bias() const { return logit_bias_; }    // 0 if there is none
  /// How the original library makes ids of texts.
  const TextPreparation& text_preparation() const { return tower_.preparation; }

  /// Vectors of unit length [B, width] of pixels [B, channels, height, width]. Throws Error as Model::Forward, and if a
  /// result is not finite.
  void ImageEmbeds(View<const float> pixels, TowerWorkspace& workspace, View<float> out) const;
  /// As above, in new memory.
  Tensor<float> ImageEmbeds(View<const float> pixels) const;

  /// Vectors of unit length [B, width] of texts. ids: [B, N], dense, N from 1 to text_length(). mask: [B, N], dense,
  /// Hugging Face's attention_mask: 0 for tokens that others do not attend to; or empty. As in the originals, ids
  /// decide which token is read, whatever the mask says; CLIP does not depend on padding after it, while SigLIP reads
  /// the last token and expects ids padded to text_length() without a mask. Any number of texts; a few are computed at
  /// a time, and none depends on the others. Throws Error that names the text if an id is not in the vocabulary, if its
  /// mask hides every token, or if a result is not finite.
  void TextEmbeds(View<const int64_t> ids, View<const int64_t> mask, TowerWorkspace& workspace, View<float> out) const;
  /// As above, for ids of 32 bits.
  void TextEmbeds(View<const int32_t> ids, View<const int32_t> mask, TowerWorkspace& workspace, View<float> out) const;
  /// As above, in new memory.
  Tensor<float> TextEmbeds(View<const int64_t> ids, View<const int64_t> mask = {}) const;
  /// As above, for ids of 32 bits.
  Tensor<float> TextEmbeds(View<const int32_t> ids, View<const int32_t> mask = {}) const;

  /// logit_scale · cosine + logit_bias: [images, texts]. images: [images, width], texts: [texts, width], dense, both of
  /// unit length.
  Tensor<float> LogitsPerImage(View<const float> images, View<const float> texts) const;
  /// Probabilities of texts for each image, by softmax over a row or the sigmoid of each logit. logits: [images,
  /// texts].
  Tensor<float> Probabilities(View<const float> logits) const;

 private:
  template <typename Id>
  void EmbedTexts(View<const Id> ids, View<const Id> mask, TowerWorkspace& workspace, View<float> out) const;

  TextTower tower_;
  int64_t width_ = 0;
  float logit_scale_ = 1, logit_bias_ = 0;
  std::optional<Model> image_;
  std::unique_ptr<const SequenceModel<float>> text_;
};

}  // namespace qkv::model
