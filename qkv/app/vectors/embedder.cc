#include "qkv/app/vectors/embedder.h"

#include <utility>

#include "qkv/app/models/abilities.h"
#include "qkv/app/open/hub.h"
#include "qkv/app/texts/texts.h"

namespace qkv::app {

struct Embedder::Tower {
  Tower(const AnyModel& model, const Note& note)
      : towers(model.BuildTowers(model::Towers::kText)), encoder(towers, FindModel(model.entry().path), note) {}

  const model::TwoTowerModel towers;
  const TextEncoder encoder;
};

Embedder::Embedder(std::string work, AnyModel model, const Note& note)
    : work_(std::move(work)), model_(std::move(model)), note_(note) {}

// The pooler of an image encoder with a decoder is untrained.
void Embedder::RequireOneVector() const {
  const ModelFacts& facts = model_.facts();
  Require(!facts.images->decoder || facts.pool != "model",
          "{}: {} writes texts about images (qkv caption) and has no one vector of an image; --pool cls, mean or "
          "tokens gives its encoder's tokens",
          work_, model_.entry().path);
}

int Embedder::Images(const ImageList& images, const PipelineOptions& pipeline, bool unit_length,
                     const std::function<void(std::span<const Embedding>)>& use) {
  if (!images_) {
    model_.Require(work_, kEmbedImages);
    RequireOneVector();
    if (const std::string unread = model_.UnreadHeads(); !unread.empty()) Notify(note_, unread);
    if (const std::string& pool = model_.facts().pool; model_.entry().pool.empty() && pool != "model") {
      Notify(note_, FormatShown("{}: --pool {}, as its authors embed images (else give --pool)", model_.images().source,
                                pool));
    }
    images_.emplace(model_.BuildImages());
  }
  const EmbedOptions options{.unit_length = unit_length && model_.facts().has_text_tower(),
                             .pooling = ParsePooling(model_.facts().pool, "--pool"),
                             .pipeline = pipeline};
  return Embed(*images_, images, options, use);
}

Tensor<float> Embedder::EmbedTexts(std::span<const std::string> texts) {
  if (!model_.facts().is_text()) {
    if (!tower_) {
      model_.Require(work_, kEmbedTexts);
      tower_ = std::make_shared<Tower>(model_, note_);
    }
    return tower_->encoder.Embed(texts, note_);
  }
  if (!language_) {
    model_.Require(work_, kEmbedTexts);
    if (const std::string unread = model_.UnreadHeads(); !unread.empty()) Notify(note_, unread);
    language_.emplace(model_.BuildLanguage());
  }
  return language_->Embed(texts, note_);
}

std::vector<Embedding> Embedder::Texts(std::span<const std::string> texts) {
  const Tensor<float> vectors = EmbedTexts(texts);
  const int64_t width = vectors.dim(1);
  std::vector<Embedding> embeddings;
  for (size_t i = 0; i < texts.size(); ++i) {
    const float* vector = vectors.view().at(static_cast<int64_t>(i));
    embeddings.push_back({texts[i], Shape({width}), {vector, vector + width}});
  }
  return embeddings;
}

EmbeddingSource Embedder::SourceWith(const std::string& pool) const {
  const ModelEntry& entry = model_.entry();
  return {
      .model = entry.path,
      .weights = FingerprintWeights(model_.tensors()),
      .pool = pool,
      .size = entry.size ? ToText(*entry.size) : "",
      .settings = model_.facts().is_text() ? FingerprintSettings(model_.texts()) : FingerprintSettings(model_.images()),
      .dtype = std::string(PrecisionName(entry.build.precision))};
}

int64_t Embedder::WidthOfImages() const {
  model_.Require(work_, kEmbedImages);
  const ModelFacts& facts = model_.facts();
  return model::PooledWidth(facts.config, ParsePooling(facts.pool, "--pool"));
}

EmbeddingSource Embedder::SourceOfImages() const { return SourceWith(model_.facts().pool); }

EmbeddingSource Embedder::SourceOfTexts() const { return SourceWith("model"); }

}  // namespace qkv::app
