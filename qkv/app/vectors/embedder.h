// Vectors of images and texts by any model that makes them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/app/models/any_model.h"
#include "qkv/app/vectors/embed.h"

namespace qkv::app {

class Embedder {
 public:
  /// An image tower, a text tower or a text model is built when it is first needed. `note` receives which pooling the
  /// model's authors use, which heads of its file are not read, and how many texts were cut.
  /// work: what errors begin with, such as "embed".
  Embedder(std::string work, AnyModel model, const Note& note = {});

  const AnyModel& model() const { return model_; }

  /// The vectors of images, pooled as the entry or else the model's authors say, as app::Embed. unit_length: vectors of
  /// a model with two towers become of length 1, as those of its texts are. Throws Error for a model that embeds no
  /// images, or that has no one vector of an image and is not told how to pool its tokens.
  int Images(const ImageList& images, const PipelineOptions& pipeline, bool unit_length,
             const std::function<void(std::span<const Embedding>)>& use);
  /// The vectors of texts, each with its text as its path. Throws Error for a model that embeds no texts.
  std::vector<Embedding> Texts(std::span<const std::string> texts);

  /// Length of the vector of an image, or of a token's for --pool tokens.
  int64_t WidthOfImages() const;
  /// What makes the vectors of images, and of texts.
  EmbeddingSource SourceOfImages() const;
  EmbeddingSource SourceOfTexts() const;

 private:
  struct Tower;  // the text tower with its tokenizer

  Tensor<float> EmbedTexts(std::span<const std::string> texts);  // [texts, width]
  EmbeddingSource SourceWith(const std::string& pool) const;
  void RequireOneVector() const;

  std::string work_;
  AnyModel model_;
  Note note_;
  std::optional<model::Model> images_;
  std::optional<LanguageModel> language_;
  std::shared_ptr<Tower> tower_;
};

}  // namespace qkv::app
